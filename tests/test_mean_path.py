"""The mean-path law: what explains the error, which ways stay flat, and what the sweep says of a cell."""

import re
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from layernorm_backward import inputs, oracle, outliers, passes
from layernorm_backward.dtypes import dtype_of, unit_roundoff
from layernorm_backward.experiments import _pass_errors, mean_path
from layernorm_backward.experiments.mean_path import Sweep
from layernorm_backward.problem import draw
from layernorm_backward.studies import config
from layernorm_backward.theory import bounds, identity
from layernorm_backward.theory.exact_rows import exact_rows
from selection import select
from workspace import ROOT

EPS = 1e-5
WAYS = ["naive", "two_pass", "welford", "recentred", "recentred_sums", "float64_mean", "float64_statistics"]
SWEEP = {
    "algorithms": WAYS,
    "dtypes": ["float64", "float32", "float16"],
    "sweeps": [
        Sweep("gaussian", [1.0, 1e2, 1e3, 1e4, 1e6], ["shifted"], [0.0], [64]),
        Sweep("gaussian", [1e3], ["aligned"], [0.01], [64]),
        Sweep("outlier", [4e3], ["shifted"], [0.0], [64]),
    ],
    "rows": 64,
    "eps": EPS,
    "seed": 3,
}


@pytest.fixture(scope="module")
def table():
    return mean_path.run(**SWEEP)


def law(table, **wanted):
    """Measured Gaussian cells of the sweep over kappa."""
    return select(table, data="gaussian", upstream="shifted", reason="", **wanted)


def slope(table, way, dtype, quantity="dx"):
    cells = law(table, algorithm=way, dtype=dtype, quantity=quantity, accumulator="storage")
    cells = cells[cells["kappa"] >= 100]
    return np.polyfit(np.log10(cells["kappa"]), np.log10(cells["error_u_median"]), 1)[0]


@pytest.mark.parametrize("quantity", ["y", "dx", "dgamma"])
@pytest.mark.parametrize("way", ["two_pass", "welford", "float64_mean"])
def test_a_rounded_mean_makes_the_error_grow_like_kappa(table, way, quantity):
    assert slope(table, way, "float64", quantity) == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("way", ["recentred", "recentred_sums"])
def test_a_re_centred_mean_keeps_the_error_flat(table, way):
    for dtype in ("float64", "float32"):
        assert law(table, algorithm=way, dtype=dtype)["error_u_max"].max() < 4


def test_float64_statistics_cure_float32_and_a_float64_mean_does_not(table):
    assert law(table, algorithm="float64_statistics", dtype="float32")["error_u_max"].max() < 4
    assert slope(table, "float64_mean", "float32") == pytest.approx(1, abs=0.15)


def test_no_error_exceeds_its_bound_and_rows_without_one_do_not_count(table):
    measured = select(table, reason="")
    assert (measured["violations"] == 0).all()
    assert (measured["bound_ratio_max"].dropna() <= 1).all()
    none = measured["bounded_rows"] == 0
    assert measured.loc[none, "bound_ratio_max"].isna().all()
    assert np.isinf(measured.loc[none, "bound_u"]).all()
    assert none.sum() > 10


def test_rows_above_their_bound_are_counted(monkeypatch):
    unchanged = bounds.error_model

    def halved(*given):
        statistics, rounding = unchanged(*given)
        return statistics._replace(drift=statistics.drift / 1000), rounding

    monkeypatch.setattr(_pass_errors.bounds, "error_model", halved)
    small = {"algorithms": ["two_pass"], "dtypes": ["float64"], "sweeps": SWEEP["sweeps"][:1]}
    found = select(mean_path.run(**(SWEEP | small)), kappa=1e4, quantity="dx")
    assert found["violations"].item() > 32
    assert found["bound_ratio_max"].item() > 1


def test_eta_and_rho_explain_all_but_a_few_roundings(table):
    wide = table[table["algorithm"] != "naive"]
    left = law(wide)["remainder_u_max"]
    assert left[np.isfinite(left)].max() < 4
    assert law(wide, quantity="dx", dtype="float64", kappa=1e6)["error_u_max"].max() > 1e6


def test_first_order_suffices_where_the_error_is_small(table):
    cells = law(table, algorithm="two_pass", dtype="float64", kappa=1e6)
    cells = cells[cells["quantity"] != "dbeta"]
    assert (cells["residual_u_max"] < 1e-4 * cells["error_u_max"]).all()
    lost = law(table, algorithm="two_pass", dtype="float32", kappa=1e6, quantity="dx")
    assert lost["residual_u_max"].item() > 10 * lost["remainder_u_max"].item()


def test_over_the_rows_of_a_cell_the_median_or_the_largest_is_told():
    rows = np.array([1.0, 2.0, 9.0])
    found = _pass_errors._summary(rows, rows + 1, rows + 2, rows + 3, np.array([2.0, 2.0, 4.0]))
    assert found.pop("errors") is rows
    assert found == {
        "error_u_median": 2.0,
        "error_u_max": 9.0,
        "identity_u_median": 3.0,
        "identity_u_max": 10.0,
        "residual_u_max": 11.0,
        "remainder_u_max": 12.0,
        "bound_u": 4.0,
        "bound_ratio_median": 1.0,
        "bound_ratio_max": 2.25,
        "bounded_rows": 3,
        "violations": 1,
    }


@pytest.fixture(scope="module")
def case():
    """Rows of kappa 1e5 by Welford's recurrence, which spoils both statistics: error of dx, eta and rho."""
    rng = inputs.generator(4)
    problem = draw(rng, inputs.rows(rng, 8, 32, np.float64, mean=1e5), "shifted", "random")
    moments = oracle.moments(problem.x)
    found = passes.run("welford", problem, EPS, np.float64)
    exact = exact_rows(moments, *problem.values()[1:], EPS)
    truth = oracle.results(*problem.values(), EPS)
    error = (found.results.dx - truth.dx.hi) - truth.dx.lo
    return error, identity.deviation(found, moments, EPS), exact


@pytest.mark.parametrize("wrong", ["sign of eta", "no rho", "no c1", "no c2"])
def test_a_wrong_identity_leaves_much_of_the_error(case, wrong):
    error, off, exact = case
    spoilt = {
        "sign of eta": (exact, off._replace(eta=-off.eta)),
        "no rho": (exact, off._replace(rho=0 * off.rho)),
        "no c1": (exact._replace(c1=0 * exact.c1), off),
        "no c2": (exact._replace(c2=0 * exact.c2), off),
    }[wrong]
    right, other = (
        np.linalg.norm(error - identity.first_order(*given).dx) for given in ((exact, off), spoilt)
    )
    assert np.linalg.norm(error) > 1e4 * right
    assert other > 100 * right


def fractions(array):
    return [Fraction(float(value)) for value in np.ravel(array)]


def mean(values):
    return sum(values, Fraction(0)) / len(values)


@pytest.mark.parametrize(("eta", "rho"), [(0.5, 0.0), (0.0, -0.3), (-2.0, 0.7)])
def test_the_exact_effect_is_that_of_rational_arithmetic(case, eta, rho):
    """dx of the moved x_hat and r, however far they are moved, of the same exact x_hat, g and r."""
    _, _, exact = case
    off = identity.Deviation(np.full((8, 1), eta), np.full((8, 1), rho))
    predicted = identity.propagated(exact, off)
    for n in range(2):
        g, r = fractions(exact.g[n]), Fraction(float(exact.r[n, 0])) * (1 + Fraction(rho))
        moved = [(value - Fraction(eta)) * (1 + Fraction(rho)) for value in fractions(exact.x_hat[n])]
        c1, c2 = mean(g), mean([one * other for one, other in zip(g, moved, strict=True)])
        dx = [float(r * (one - c1 - other * c2)) for one, other in zip(g, moved, strict=True)]
        assert exact.dx[n] + predicted.dx[n] == pytest.approx(dx, rel=1e-11, abs=1e-11)
        y = [float(value) * scale for value, scale in zip(moved, exact.gamma, strict=True)]
        assert exact.gamma * exact.x_hat[n] + predicted.y[n] == pytest.approx(y, rel=1e-11, abs=1e-11)


def test_first_order_is_the_exact_effect_but_for_squares(case):
    _, _, exact = case
    gaps = []
    for size in (1e-3, 1e-4):
        off = identity.Deviation(np.full((8, 1), size), np.full((8, 1), -2 * size))
        first, every = identity.first_order(exact, off), identity.propagated(exact, off)
        gaps.append([np.linalg.norm(a - b) for a, b in zip(first[:3], every[:3], strict=True)])
    assert np.array(gaps[0]) / gaps[1] == pytest.approx([100] * 3, rel=0.01)


def test_what_is_explained_of_huge_and_tiny_errors_is_no_overflow():
    for size in (1e200, 1e-200):
        off, zero = np.full((1, 4), 0.5 * size), np.zeros((1, 4))
        found = _pass_errors._relative(off, np.array([2 * size]), off, zero)
        assert [float(part[0]) for part in found] == pytest.approx([0.5, 0.5, 0, 0.5])


def test_re_centring_takes_kappa_away_and_leaves_kappa_g(table):
    cells = select(table, upstream="aligned", dtype="float64", quantity="dx").set_index("algorithm")
    kappa_g = cells["kappa_g"].iloc[0]
    assert kappa_g == pytest.approx(142, rel=0.1)
    assert kappa_g / 2 < cells.loc["recentred", "error_u_max"] < 20 * kappa_g
    assert cells.loc["two_pass", "error_u_max"] > 100 * cells.loc["recentred", "error_u_max"]


def test_cells_that_do_not_exist_say_why(table):
    lost = select(table, dtype="float16", data="gaussian", kappa=1e6)
    assert set(lost["reason"]) == {"rows of kappa 1e+06 overflow in float16"}
    assert lost["error_u_max"].isna().all()
    assert len(select(lost, accumulator="storage")) == 4 * len(WAYS)
    reasons = select(table, dtype="float32", data="outlier")["reason"]
    assert set(reasons) == {"no row of 64 neighbours in float32 has kappa 4000"}


def test_float32_sums_do_not_make_the_naive_variance_harmless(table):
    cells = select(table, data="outlier", dtype="float16", accumulator="float32", quantity="dx")
    error = cells.set_index("algorithm")["error_u_max"]
    assert error["naive"] > 10
    assert error["two_pass"] < 1


@pytest.mark.parametrize(("name", "kappa"), [("bfloat16", 2e3), ("float16", 3e4), ("float32", 1e8)])
def test_outlier_rows_are_neighbours_with_a_kappa_beyond_one_over_u(name, kappa):
    dtype = dtype_of(name)
    x = outliers.rows(inputs.generator(1), 64, 1024, dtype, kappa).astype(np.float64)
    low, high = x.min(axis=-1), x.max(axis=-1)
    step = 2 * unit_roundoff(dtype) * 2.0 ** np.floor(np.log2(low))
    assert np.array_equal(high - low, step)
    assert ((x == low[:, None]) | (x == high[:, None])).all()
    found = oracle.moments(x)
    kappas = np.hypot(1, found.mean.hi / np.sqrt(found.variance.hi))
    assert np.median(kappas) == pytest.approx(kappa, rel=0.05)
    assert kappa > 2 / unit_roundoff(dtype)
    assert 0.5 < np.median(np.sqrt(found.variance.hi)) < 2
    assert np.unique(low).size > 4 and np.unique((x > low[:, None]).argmax(axis=-1)).size > 4


@pytest.mark.parametrize("kappa", [10.0, 2e3, 1e9])
def test_a_kappa_that_no_outlier_row_has_is_refused(kappa):
    with pytest.raises(ValueError, match=re.escape(f"neighbours in bfloat16 has kappa {kappa:g}")):
        outliers.rows(inputs.generator(1), 4, 64, dtype_of("bfloat16"), kappa)


def test_the_interval_of_a_median_holds_it(table):
    measured = select(table, reason="", algorithm="recentred", quantity="dx")
    measured = measured[np.isfinite(measured["error_u_max"])]
    assert (measured["error_u_median_low"] <= measured["error_u_median"]).all()
    assert (measured["error_u_median"] <= measured["error_u_median_high"]).all()
    assert select(table, quantity="dgamma")["error_u_median_low"].isna().all()


def test_the_sweep_repeats_itself_whatever_else_is_swept(table):
    few = SWEEP | {"dtypes": ["float32"], "algorithms": ["recentred"], "sweeps": SWEEP["sweeps"][:1]}
    again = mean_path.run(**few)
    keys = ["algorithm", "dtype", "accumulator", "data", "kappa", "upstream", "spread", "hidden", "quantity"]
    both = again.merge(table, on=keys)
    assert len(both) == len(again)
    for column in ("error_u_median", "error_u_median_low", "bound_u", "remainder_u_max"):
        assert both[f"{column}_x"].equals(both[f"{column}_y"])


def test_the_study_of_the_paper_crosses_row_lengths_kappa_and_upstream_gradients():
    sweeps = config.load(ROOT / "config" / "paper" / "mean_path.yaml", mean_path.run)["sweeps"]
    cells = {(it.data, *cell) for it in sweeps for cell in product(it.hidden, it.kappas, it.upstreams)}
    upstreams = ("normal", "shifted", "correlated")
    decades = [10.0**power for power in range(16)]
    assert set(product(["gaussian"], [1024], decades, upstreams)) <= cells
    assert set(product(["gaussian"], [64, 256, 4096], decades[::3], upstreams)) <= cells
    assert set(product(["outlier"], [1024], [500.0, 4e3, 3.16e4], upstreams)) <= cells


def test_rows_of_outliers_end_before_the_largest_number_of_their_dtype():
    assert np.isfinite(outliers.rows(inputs.generator(1), 4, 16384, "float16", 1.9e5)).all()

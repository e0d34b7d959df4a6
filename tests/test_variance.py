"""Variance algorithms: order of operations, error within the bound, and what the sweep says of a cell."""

from fractions import Fraction

import numpy as np
import pytest

from layernorm_backward import inputs, oracle
from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of, unit_roundoff
from layernorm_backward.experiments import variance, variance_time
from layernorm_backward.sums import compensated_sum, pairwise_depth, tree_depth, tree_sum
from layernorm_backward.theory.variance_bounds import BOUNDS
from layernorm_backward.variance import ALGORITHMS, accumulators, moments
from planned_samples import planned
from selection import held_row_by_row, select

SWEEP = {
    "algorithms": list(ALGORITHMS),
    "dtypes": list(DTYPE_NAMES),
    "ladder_offsets": [0.0, 1e2, 1e4, 1e8, 1e9, 1e14],
    "long_ladder_repeats": 10,
    "gaussian_offsets": [0.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6],
    "gaussian_hidden": 64,
    "hidden_offsets": [0.0],
    "hidden_sweep": [7],
    "rows": 16,
    "seed": 1,
}


@pytest.fixture(scope="module")
def table():
    return variance.run(**SWEEP)


def slope(table, algorithm):
    rows = select(table, algorithm=algorithm, dtype="float64", data="gaussian", hidden=64)
    rows = rows[rows["offset"] >= 10]
    return np.polyfit(np.log10(rows["kappa"]), np.log10(rows["rel_error_median"]), 1)[0]


@pytest.mark.parametrize("name", DTYPE_NAMES)
def test_tree_sum_folds_halves_in_its_own_dtype(name):
    x = inputs.rows(inputs.generator(1), 3, 5, dtype_of(name))
    a, b, c, d, e = (x[:, k] for k in range(5))
    assert np.array_equal(tree_sum(x), ((a + c) + (b + d)) + e)
    assert tree_sum(x).dtype == x.dtype


@pytest.mark.parametrize(("count", "depth"), [(1, 0), (2, 1), (5, 3), (1024, 10), (1025, 11)])
def test_tree_depth_counts_the_levels(count, depth):
    assert tree_depth(count) == depth


def test_numpys_sum_errs_less_than_its_depth_allows():
    for count in (8, 9, 127, 128, 129, 1000, 1024, 4097):
        x = np.abs(inputs.rows(inputs.generator(count), 50, count, np.float32))
        error = np.abs(x.sum(axis=-1).astype(float) - x.astype(float).sum(axis=-1)) / x.astype(float).sum(
            axis=-1
        )
        assert error.max() <= pairwise_depth(count) * 2.0**-24
        assert pairwise_depth(count) < count or count < 30


def test_numpys_sum_adds_what_remains_after_whole_eights_one_by_one():
    terms = np.zeros(15)
    terms[0], terms[8:] = 1.0, 0.99 * 2.0**-53
    lost_u = (7 * terms[8] - (terms.sum() - 1)) * 2.0**53
    assert 6 < lost_u <= pairwise_depth(15)


@pytest.mark.parametrize("sign", [1, -1])
def test_compensated_sum_keeps_what_a_running_sum_loses(sign):
    terms = sign * np.array([[1.0, 1e100, 1.0, -1e100]])
    assert compensated_sum(terms).tolist() == [sign * 2.0]
    assert float(np.sum(terms)) == 0.0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("hidden", [1, 2, 3, 5, 64, 100])
def test_every_algorithm_gives_mean_and_variance(algorithm, hidden):
    x = inputs.rows(inputs.generator(hidden), 4, hidden, np.float64, mean=1.0)
    found = moments(algorithm, x, np.float64)
    for row, mean, value in zip(x.tolist(), found.mean.tolist(), found.variance.tolist(), strict=True):
        exact_mean = sum(map(Fraction, row)) / hidden
        exact = sum((Fraction(v) - exact_mean) ** 2 for v in row) / hidden
        assert mean == pytest.approx(float(exact_mean), rel=1e-13, abs=1e-15)
        assert value == pytest.approx(float(exact), rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("name", DTYPE_NAMES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_operation_stays_in_the_accumulator(algorithm, name):
    x = inputs.rows(inputs.generator(2), 2, 9, dtype_of(name))
    for dtype in accumulators(x.dtype).values():
        found = moments(algorithm, x, dtype)
        assert found.mean.dtype == found.variance.dtype == dtype


def test_an_unknown_algorithm_is_refused_with_the_names_allowed():
    with pytest.raises(ValueError, match="'numpy'; allowed: naive, naive_s2"):
        moments("numpy", np.ones((1, 3)), np.float64)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("kappa", [1.0, 30.0, 1e3, 1e6])
def test_errors_stay_within_the_bound_on_harder_rows_too(algorithm, kappa):
    """Gaussian rows, rows of one outlier (first, or last), sorted rows, rows of two values."""
    rng, hidden, u = inputs.generator(8), 128, unit_roundoff(np.float64)
    normal = rng.standard_normal((32, hidden))
    outlier = 1e-3 * normal + np.where(np.arange(hidden) == 0, np.sqrt(hidden), 0)
    rows = [normal, outlier, outlier[:, ::-1], np.sort(normal), np.sign(np.sort(normal))]
    x = np.concatenate(rows) + inputs.mean_of_kappa(kappa)
    exact = oracle.moments(x)
    std = np.sqrt(exact.variance.hi)
    error = np.abs(moments(algorithm, x, np.float64).variance - exact.variance.hi) / exact.variance.hi
    first = np.abs(exact.centred.hi[:, 0]) / std
    bound = BOUNDS[algorithm](np.hypot(1, exact.mean.hi / std), first, hidden, u)
    assert np.all(error <= bound)


def test_bounds_hold_throughout_the_sweep(table):
    wide = table[table["dtype"].isin(["float64", "float32"]) | (table["accumulator"] == "float32")]
    wide = wide[wide["representable"]]
    assert len(wide) > 200
    held_row_by_row(wide, "bound_ratio_max", "rel_error_max", "bound")
    assert np.isinf(wide.loc[wide["bound_ratio_max"].isna(), "bound"]).all()


@pytest.mark.parametrize(
    ("algorithm", "power"),
    [("naive", 2), ("naive_s2", 2), ("naive_nn", 2), ("naive_compensated", 2), ("welford", 1), ("chan", 1)],
)
def test_the_error_grows_with_that_power_of_kappa(table, algorithm, power):
    assert slope(table, algorithm) == pytest.approx(power, abs=0.15)


@pytest.mark.parametrize("algorithm", ["two_pass", "two_pass_corrected", "shifted"])
def test_the_error_does_not_grow_before_kappa_reaches_one_over_root_u(table, algorithm):
    assert slope(table, algorithm) == pytest.approx(0, abs=0.1)


def test_naive_loses_the_ladder_at_1e9_and_two_pass_never(table):
    ladder = select(table, data="ladder", dtype="float64")
    assert select(ladder, algorithm="naive", offset=1e8)["computed"].item() == 2.0
    assert select(ladder, algorithm="naive", offset=1e9)["computed"].item() == 0.0
    assert (select(ladder, algorithm="two_pass")["computed"] == 2.0).all()


@pytest.mark.parametrize(
    ("dtype", "offset", "reason"),
    [
        ("float32", 1e8, "1 of 1 rows are constant in float32"),
        ("float16", 1e4, "1 of 1 rows are constant in float16"),
        ("float16", 1e8, "1 of 1 rows overflow in float16"),
        ("bfloat16", 1e4, "1 of 1 rows are constant in bfloat16"),
    ],
)
def test_a_row_that_the_dtype_cannot_hold_is_neither_passed_nor_failed(table, dtype, offset, reason):
    cells = select(table, data="ladder", dtype=dtype, offset=offset)
    assert not cells["representable"].any()
    assert cells["rel_error_max"].isna().all()
    assert set(cells["reason"]) == {reason}


def test_representation_error_is_that_of_the_data_and_none_of_the_algorithm(table):
    cells = select(table, data="gaussian", dtype="bfloat16", offset=100.0, hidden=64)
    assert cells["representation_error"].nunique() == 1
    assert cells["representation_error"].iloc[0] > 1e-2
    assert select(cells, algorithm="shifted", accumulator="float32")["rel_error_max"].item() < 1e-6
    assert (select(table, data="ladder", dtype="float64")["representation_error"] == 0).all()


def test_over_the_rows_of_a_cell_kappa_is_the_median_and_the_error_told_the_largest(table):
    (cell,) = variance._gaussian_cells("float64", [(10.0, 64)], SWEEP["rows"], SWEEP["seed"])
    exact = oracle.moments(cell.x)
    error = np.abs(moments("naive", cell.x, np.float64).variance / exact.variance.hi - 1)
    found = select(table, dtype="float64", data="gaussian", offset=10.0, hidden=64, algorithm="naive")
    assert found["kappa"].item() == pytest.approx(np.median(np.hypot(1, cell.x.mean(1) / cell.x.std(1))))
    assert found["rel_error_max"].item() == pytest.approx(error.max(), abs=2.0**-52)
    assert found["rel_error_median"].item() == pytest.approx(np.median(error), abs=2.0**-52)


def test_an_overflowing_algorithm_is_infinitely_wrong(table):
    cell = select(table, algorithm="naive", dtype="float16", accumulator="storage", data="gaussian")
    cell = select(cell, offset=1e3, hidden=64)
    assert cell["representable"].item()
    assert cell["rel_error_max"].item() == np.inf


def test_the_sweep_repeats_itself(table):
    few = SWEEP | {"dtypes": ["bfloat16"], "gaussian_offsets": [10.0], "ladder_offsets": []}
    again = variance.run(**few)
    merged = again.merge(table, on=["algorithm", "dtype", "accumulator", "data", "offset", "hidden"])
    assert len(merged) == len(again)
    assert np.array_equal(merged["rel_error_max_x"], merged["rel_error_max_y"])


TIMING = {
    "dtypes": ["float16"],
    "shapes": [(4, 8)],
    "repeats": 3,
    "at_least": 3,
    "budget_s": 1.0,
    "seed": 1,
}


def test_the_time_of_two_pass_is_one_times_its_own():
    table, samples = variance_time.run(algorithms=["two_pass", "welford"], **TIMING)
    assert set(table["accumulator"]) == {"storage", "float32"}
    assert (select(table, algorithm="two_pass")["two_pass_ratio"] == 1).all()
    assert (table["median_s"] > 0).all()
    assert len(samples) == 2 * 2 * 3


def test_a_ratio_is_the_time_of_an_algorithm_over_that_of_two_pass(monkeypatch):
    planned(monkeypatch, 6, two_pass=np.ones(6), welford=np.full(6, 3.0))
    table, _ = variance_time.run(algorithms=["two_pass", "welford"], **TIMING)
    assert set(select(table, algorithm="welford")["two_pass_ratio"]) == {3.0}

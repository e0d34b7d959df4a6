"""What is saved of the mean: the bits of the whole pass, bounds that hold, and which precision is enough."""

import numpy as np
import pytest

from layernorm_backward import inputs, oracle, passes, saving
from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of, sum_dtype, unit_roundoff
from layernorm_backward.experiments import saved_statistics
from layernorm_backward.problem import draw
from layernorm_backward.theory.saving_bounds import eta_bound
from selection import held_row_by_row, select

SWEEP = {
    "saved": list(saving.SAVED),
    "dtypes": list(DTYPE_NAMES),
    "forwards": ["two_pass", "recentred"],
    "backwards": ["as_saved", "recentred", "recentred_rstd"],
    "kappas": [1.0, 10.0, 100.0, 1e3, 1e4, 1e6],
    "upstream": "shifted",
    "hidden": 128,
    "rows": 16,
    "eps": 1e-5,
    "seed": 5,
}


@pytest.fixture(scope="module")
def table():
    return saved_statistics.run(**SWEEP)


def problem_of(name, mean, hidden=100):
    rng = inputs.generator(2)
    return draw(rng, inputs.rows(rng, 8, hidden, dtype_of(name), mean=mean), "shifted", "random")


@pytest.mark.parametrize("name", DTYPE_NAMES)
@pytest.mark.parametrize(("forward", "saved"), [("two_pass", "mean"), ("recentred", "mean_and_shift")])
def test_a_mean_saved_in_full_gives_the_bits_of_the_whole_pass(name, forward, saved):
    problem = problem_of(name, 30.0)
    sums = sum_dtype(problem.x.dtype)
    kept = saving.keep(f"mean_{sums.name}" if saved == "mean" else saved, forward, problem, 1e-5)
    found = saving.backward("as_saved", kept, problem)
    whole = passes.run(forward, problem, 1e-5, sums).results
    assert np.array_equal(found.dx, whole.dx)
    assert np.array_equal(found.dgamma, whole.dgamma)


def test_bytes_are_those_of_the_arrays_kept():
    problem = problem_of("float32", 0.0, hidden=16)
    sizes = {name: saving.keep(name, "recentred", problem, 1e-5).extra_bytes for name in saving.SAVED}
    rstd, rows = 4 * 8, 8
    assert sizes["first_element"] == rstd
    assert sizes["mean_float64"] == sizes["mean_and_shift"] == 8 * rows + rstd
    assert sizes["mean_bfloat16"] == sizes["mean_float16"] == 2 * rows + rstd
    assert sizes["mean_rstd_bfloat16"] == 2 * rows + 2 * rows
    assert sizes["x_hat"] == 4 * 8 * 16 + rstd


def test_an_unknown_name_is_refused_with_those_allowed():
    with pytest.raises(ValueError, match="'median'; allowed: mean_float64, mean_float32"):
        saving.keep("median", "recentred", problem_of("float32", 0.0), 1e-5)


def test_rows_are_off_centre_by_no_more_than_the_bound(table):
    measured = table.dropna(subset=["eta_u_max"])
    assert len(measured) > 400
    held_row_by_row(measured, "eta_bound_ratio_max", "eta_u_max", "eta_bound_u")


def test_an_offset_is_told_in_u_of_the_sums():
    problem = problem_of("bfloat16", 10.0)
    ways = ["two_pass"], ["mean_float32"], ["as_saved"]
    (found,) = saved_statistics._cell(problem, np.hypot(1, 10.0), *ways, 1e-5)
    kept = saving.keep("mean_float32", "two_pass", problem, 1e-5)
    eta = saving.backward("as_saved", kept, problem).eta
    assert found["eta_u_max"] == eta.max() / unit_roundoff(np.float32)


def test_the_bound_is_near_where_the_rounded_mean_decides(table):
    cells = select(table, dtype="float32", saved="mean_bfloat16", backward="as_saved", kappa=1e4)
    assert (cells["eta_bound_u"] < 3 * cells["eta_u_max"]).all()


@pytest.mark.parametrize("mean", [0.0, 1e3])
def test_the_bound_is_that_of_its_description(mean):
    """Of a mean by a sum of depth 7 over 128 elements, saved in bfloat16."""
    problem = problem_of("float32", mean, hidden=128)
    moments, u, v = oracle.moments(inputs.values(problem.x)), 2.0**-24, 2.0**-8
    kappa = np.hypot(1, moments.mean.hi / np.sqrt(moments.variance.hi))
    drift = (7 + 1) * u * kappa + v * kappa
    for backward, off in (("as_saved", drift), ("recentred", (7 + 2) * u * np.hypot(1, drift))):
        found = eta_bound("mean_bfloat16", "two_pass", backward, problem.x, moments)
        assert found == pytest.approx(off + 3 * u * np.hypot(1, off), rel=1e-12, abs=0)


@pytest.mark.parametrize(
    ("saved", "backward"),
    [
        ("mean_bfloat16", "as_saved"),
        ("mean_bfloat16", "recentred"),
        ("mean_and_shift", "as_saved"),
        ("x_hat", "as_saved"),
        ("first_element", "recentred"),
    ],
)
def test_the_bound_holds_on_rows_with_an_outlier_in_front(saved, backward):
    """x_1 is ten standard deviations off, which is much for the scheme that takes it for the mean."""
    rng = inputs.generator(3)
    deviations = rng.standard_normal((32, 128)) + 10.0 * (np.arange(128) == 0)
    for mean in (0.0, 1e3, 1e6):
        problem = draw(rng, (mean + deviations).astype(np.float32), "shifted", "random")
        moments = oracle.moments(inputs.values(problem.x))
        kept = saving.keep(saved, "recentred", problem, 1e-5)
        eta = saving.backward(backward, kept, problem).eta
        assert np.all(eta <= eta_bound(saved, "recentred", backward, problem.x, moments))


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_a_mean_in_the_dtype_of_x_is_enough_where_the_backward_pass_re_centres(table, dtype):
    cells = select(table, dtype=dtype, saved=f"mean_{dtype}", forward="recentred")
    assert select(cells, backward="recentred")["dx_error_u_max"].max() < 6
    assert select(cells, backward="as_saved")["dx_error_u_max"].max() > 40


@pytest.mark.parametrize("saved", ["mean_and_shift", "x_hat", "mean_float64"])
def test_what_holds_the_centred_row_needs_no_second_re_centring(table, saved):
    cells = select(table, dtype="float32", saved=saved, forward="recentred", backward="as_saved", reason="")
    assert len(cells) == 6
    assert cells["dx_error_u_max"].max() < 6


def test_a_plain_forward_pass_leaves_a_wrong_rstd_which_the_backward_pass_can_correct(table):
    cells = select(table, dtype="float32", saved="mean_float32", forward="two_pass", kappa=1e6)
    assert select(cells, backward="recentred")["dx_error_u_max"].item() > 1e3
    assert select(cells, backward="recentred_rstd")["dx_error_u_max"].item() < 6


def test_rstd_in_16_bits_costs_its_roundoff_at_every_kappa(table):
    cells = select(
        table, dtype="float32", saved="mean_rstd_bfloat16", forward="recentred", backward="recentred"
    )
    assert cells["dx_error_u_max"].between(1e4, 7e4).all()


def test_a_mean_beyond_float16_is_named_and_not_measured(table):
    cells = select(table, dtype="float64", saved="mean_float16", kappa=1e6)
    assert set(cells["reason"]) == {"16 of 16 means overflow in float16"}
    assert cells[["dx_error_u_max", "saved_extra_bytes"]].isna().all(axis=None)


def test_the_further_x_1_is_from_the_mean_the_more_is_left_of_it():
    rng = inputs.generator(6)
    deviations = rng.standard_normal((64, 128))
    left = []
    for outlier in (0.0, 11.0):
        x = (1e3 + np.where(np.arange(128) == 0, outlier, deviations)).astype(np.float32)
        problem = draw(rng, x, "shifted", "random")
        kept = saving.keep("first_element", "recentred", problem, 1e-5)
        left.append(np.median(saving.backward("recentred", kept, problem).eta))
    assert left[1] > 3 * left[0]


def test_x_1_is_never_used_as_if_it_were_the_mean(table):
    assert set(select(table, saved="first_element")["backward"]) == {"recentred"}


def test_rows_that_lose_their_kappa_say_so(table):
    cells = select(table, dtype="bfloat16", kappa=1e4)
    assert cells["reason"].str.endswith("are constant in bfloat16").all()

"""Slopes: known powers are found and judged by the rule; what says nothing about a power is not fitted."""

import numpy as np
import pandas as pd
import pytest

from layernorm_backward.experiments import slopes
from layernorm_backward.fits import slope
from layernorm_backward.records.schemas import SCHEMAS

KAPPAS = 10.0 ** np.arange(0, 6.5, 0.5)
RULE = {"hidden": 64, "above": 2.0, "below": 0.1, "kappa_u": 0.01, "fewest": 4}
KEYS = {"algorithm": "two_pass", "kernel": "compact", "dtype": "float64", "accumulator": "storage"}
KEYS |= {"data": "gaussian", "upstream": "shifted", "spread": 0.0, "hidden": 64, "quantity": "dx"}
KEYS |= {"kappa": 1.0, "kappa_g": 1.0, "reason": ""}


def points(stem: str, *rows: dict) -> pd.DataFrame:
    names = [name for name in (*SCHEMAS[stem].keys, "error_u_median", "kappa_g", "reason")]
    return pd.DataFrame([KEYS | row for row in rows], columns=names)


def growing(power: float, kappas=KAPPAS, **key: object) -> list[dict]:
    """Errors 1 + kappa**power/10."""
    return [{"kappa": kappa, "error_u_median": 1 + kappa**power / 10, **key} for kappa in kappas]


def fitted(*rows: dict, backward=(), cancelled=(), **rule: float) -> pd.DataFrame:
    frames = {"mean_path": points("mean_path", *rows)}
    frames["backward_error"] = points("backward_error", *backward)
    frames["cancellation"] = points("cancellation", *cancelled)
    return slopes.run(**(RULE | rule), **frames)


def one(found: pd.DataFrame, axis: str = "kappa") -> pd.Series:
    found = found[found["property"] == axis]
    assert len(found) == 1
    return found.iloc[0]


@pytest.mark.parametrize(("way", "power"), [("naive", 2), ("welford", 1), ("float64_mean", 1)])
def test_a_power_of_kappa_is_found_above_the_floor(way, power):
    found = one(fitted(*growing(power, algorithm=way)))
    assert found["value"] == pytest.approx(power, abs=0.06)
    assert found["value_low"] <= found["value"] <= found["value_high"]
    assert (found["expected"], found["reason"]) == (power, "")
    assert found["fitted_low"] > 3 and found["fitted_high"] == KAPPAS[-1]


def test_a_wrong_power_shows_in_the_deviation():
    assert one(fitted(*growing(2, algorithm="welford")))["deviation"] == pytest.approx(1, abs=0.1)
    assert one(fitted(*growing(1, algorithm="recentred")))["deviation"] == pytest.approx(1, abs=0.1)


def test_an_error_that_never_rises_is_flat_where_theory_says_so_and_hidden_elsewhere():
    found = one(fitted(*growing(0, algorithm="recentred")))
    assert (found["value"], found["expected"], found["points"]) == (pytest.approx(0), 0, KAPPAS.size)
    found = one(fitted(*growing(0, algorithm="two_pass")))
    assert found["reason"] == "no error above 2 times the smallest" and np.isnan(found["value"])


def test_a_single_outlier_of_a_flat_error_is_no_slope():
    rows = growing(0, algorithm="recentred")
    rows[3]["error_u_median"] = 50.0
    assert one(fitted(*rows))["reason"] == "1 points; a fit needs 4"


def test_errors_of_a_tenth_and_coarse_numbers_are_left_out():
    steep = fitted(*growing(2, algorithm="naive", dtype="float32"))
    assert one(steep)["fitted_high"] == pytest.approx(10**3.5)  # kappa^2 u / 10 < 0.1
    linear = fitted(*growing(1, kappas=10.0 ** np.arange(0, 9, 0.5), dtype="float32"))
    assert one(linear)["fitted_high"] == pytest.approx(1e5)  # kappa u < 0.01
    wide = fitted(*growing(1, dtype="bfloat16", accumulator="float32"), below=np.inf)
    assert one(wide)["fitted_high"] == pytest.approx(1e5)


@pytest.mark.parametrize(("dtype", "power"), [("float64", 1.0), ("float32", 0.0)])
def test_statistics_in_float64_are_plain_ones_in_float64_alone(dtype, power):
    found = one(fitted(*growing(power, algorithm="float64_statistics", dtype=dtype)))
    assert (found["expected"], found["fitted_high"]) == (power, KAPPAS[-1])
    reference = one(fitted(backward=growing(power, kernel="reference", dtype=dtype)))
    assert (reference["source"], reference["expected"]) == ("backward_error", power)
    assert reference["accumulator"] == ("storage" if dtype == "float64" else "float64")


def test_dbeta_is_expected_to_be_flat_whatever_the_mean():
    found = one(fitted(*growing(0, algorithm="two_pass", quantity="dbeta")))
    assert (found["expected"], found["reason"]) == (0, "")
    assert one(fitted(*growing(1, quantity="dbeta")))["deviation"] == pytest.approx(1, abs=0.1)


def test_a_kernel_that_the_theory_does_not_know_has_no_expected_power():
    for quantity in ("dx", "dbeta"):
        found = one(fitted(backward=growing(1, kernel="theirs", quantity=quantity)))
        assert np.isnan(found["expected"]) and np.isnan(found["deviation"])


def test_growth_with_kappa_is_that_at_the_configured_size_from_its_smallest_to_its_largest():
    rows = growing(1)[::-1]
    found = one(fitted(*rows, *growing(2, hidden=256)))
    assert found["value"] == pytest.approx(1, abs=0.06)
    assert (found["fitted_low"], found["fitted_high"]) == (pytest.approx(10**1.5), KAPPAS[-1])


def test_growth_with_kappa_g_is_that_at_the_configured_size_and_of_dx_alone():
    projected = [
        {"upstream": "aligned", "spread": 1 / kappa_g, "kappa_g": kappa_g, "hidden": hidden}
        | {"quantity": quantity, "error_u_median": kappa_g**power}
        for hidden, quantity, power in ((64, "dx", 1), (256, "dx", 2), (64, "y", 0))
        for kappa_g in 10.0 ** np.arange(5)
    ]
    found = one(fitted(*projected), "kappa_g")
    assert (found["quantity"], found["value"]) == ("dx", pytest.approx(1))


def test_growth_with_d_is_taken_at_the_largest_kappa_that_has_enough_sizes():
    sizes = [
        {"kappa": kappa, "hidden": size, "error_u_median": kappa * size**0.5}
        for kappa, count in ((1.0, 6), (100.0, 5), (1e4, 3))
        for size in 64 * 2 ** np.arange(count)
    ]
    found = one(fitted(*sizes), "hidden")
    assert (found["kappa"], found["points"]) == (100, 5)
    assert found["value"] == pytest.approx(0.5)
    assert np.isnan(found["expected"]) and np.isnan(found["deviation"])


def test_growth_with_kappa_g_is_that_of_dx_at_the_smallest_kappa():
    projected = [
        {"spread": 1 / kappa_g, "kappa_g": kappa_g, "kappa": kappa, "error_u_median": kappa * kappa_g}
        for kappa in (1.0, 1e3)
        for kappa_g in 10.0 ** np.arange(5)
    ]
    found = fitted(*[row | {"upstream": "aligned"} for row in projected], cancelled=projected)
    found = found[found["property"] == "kappa_g"].set_index("source")
    assert list(found["value"]) == pytest.approx([1, 1])
    assert found.loc["mean_path", "kappa"] == 1 and found.loc["cancellation", "upstream"] == "aligned"
    assert set(found["expected"]) == {1.0}


def test_unmeasured_and_outlier_rows_are_no_points():
    rows = growing(1) + growing(2, data="outlier")
    rows += [{"kappa": 1e7, "error_u_median": np.nan, "reason": "rows are constant"}]
    found = one(fitted(*rows))
    assert found["value"] == pytest.approx(1, abs=0.06) and found["points"] < KAPPAS.size
    nothing = fitted(*[row | {"reason": "overflow", "error_u_median": np.nan} for row in growing(1)])
    assert one(nothing)["reason"] == "0 points; a fit needs 4"


def test_a_slope_needs_positive_points_that_differ():
    with pytest.raises(ValueError, match="positive, finite points"):
        slope([1, 2, 3], [1, 0, 2])
    with pytest.raises(ValueError, match="positive, finite points"):
        slope([1, 2, 3], [1, np.inf, 2])
    with pytest.raises(ValueError, match="needs 2 different x; there are 1"):
        slope([2, 2], [1, 3])


def test_the_interval_of_a_slope_is_one_of_95_per_cent():
    """Sen (1968): of the 45 slopes of 10 points, those of rank (45 -+ 1.96 sqrt(125)) / 2 are its ends."""
    x, y = np.arange(10.0), np.random.default_rng(1).standard_normal(10)
    low, high = np.triu_indices(10, 1)
    slopes_of_all = np.sort((y[high] - y[low]) / (x[high] - x[low]))
    found = slope(np.exp(x), np.exp(y))
    assert (found.low, found.high) == (pytest.approx(slopes_of_all[11]), pytest.approx(slopes_of_all[33]))


@pytest.mark.parametrize(("count", "known"), [(2, False), (4, False), (5, True)])
def test_an_interval_needs_five_points(count, known):
    x = 2.0 ** np.arange(count)
    found = slope(x, x * np.exp(0.1 * np.sin(x)))
    assert found.value == pytest.approx(1, abs=0.3) and found.points == count
    assert np.isfinite([found.low, found.high]).all() == known
    assert np.isnan([found.low, found.high]).all() != known

"""The interval of a median holds it as often as it says, for usual distributions and any number of values."""

import numpy as np
import pytest
from scipy import stats

from layernorm_backward.timing.median_interval import FEWEST, LEVEL, median_interval
from workspace import ROOT

DRAWS = {
    "normal": stats.norm(),
    "skewed": stats.lognorm(1, loc=-1),
    "wild": stats.cauchy(),
    "flat": stats.uniform(-0.5, 1),
}  # each of median 0


@pytest.mark.parametrize("count", [*range(FEWEST, 14), 25, 60])
@pytest.mark.parametrize("name", DRAWS)
def test_the_median_is_held_in_95_of_100_samples(name, count):
    """The tolerance is four standard errors of a share of so many samples, and 1 % for the interpolation."""
    samples = DRAWS[name].rvs((1500, count), random_state=count)
    held = np.mean([low <= 0 <= high for low, high in map(median_interval, samples)])
    assert held == pytest.approx(LEVEL, abs=0.01 + 4 * np.sqrt(LEVEL * (1 - LEVEL) / 1500))


@pytest.mark.parametrize("count", [FEWEST, 7, 9])
def test_between_order_statistics_it_is_exact_for_double_exponential_distributions(count):
    """The tolerance is four standard errors, which ends that are interpolated linearly exceed."""
    samples = stats.laplace().rvs((20_000, count), random_state=count)
    held = np.mean([low <= 0 <= high for low, high in map(median_interval, samples)])
    assert held == pytest.approx(LEVEL, abs=4 * np.sqrt(LEVEL * (1 - LEVEL) / 20_000))


def test_of_values_in_two_groups_it_holds_the_median_as_seldom_as_the_inner_order_statistics():
    """Of seven values these hold it in 87.5 of 100, the outer ones in 98.4; the paper says both."""
    rng = np.random.default_rng(7)
    samples = rng.choice([-1, 1], (20_000, 7)) * (1 + 0.01 * rng.random((20_000, 7)))
    held = np.mean([low <= 0 <= high for low, high in map(median_interval, samples)])
    assert held == pytest.approx(1 - 16 / 2**7, abs=0.01)
    text = (ROOT / "paper" / "paper.md.j2").read_text(encoding="utf-8")
    assert "samples whatever the distribution" not in text
    assert 'of seven values in << c("98.4") >> and << c("87.5") >> of << c("100") >>' in text


@pytest.mark.parametrize("count", [FEWEST, 7, 9, 24, 101, 3000])
def test_it_lies_between_the_order_statistics_that_hold_the_median_more_and_less_often(count):
    """scipy's interval has ends at order statistics and holds the median in 95 of 100 samples or more."""
    values = np.random.default_rng(1).permutation(np.arange(1.0, count + 1))
    outer = stats.quantile_test(values, q=0.0, p=0.5).confidence_interval(LEVEL)
    low, high = median_interval(values)
    assert outer.low <= low < outer.low + 1 and outer.high - 1 < high <= outer.high
    assert low + high == pytest.approx(count + 1)


@pytest.mark.parametrize("count", [1, 2, FEWEST - 1])
def test_few_values_have_no_interval(count):
    assert np.isnan(median_interval(np.arange(count))).all()
    assert 1 - 2 * 0.5 ** (FEWEST - 1) < LEVEL < 1 - 2 * 0.5**FEWEST


def test_values_that_are_all_the_same_leave_no_doubt():
    assert median_interval([2.5] * 8) == (2.5, 2.5)


def test_one_value_that_is_far_off_does_not_reach_into_the_interval_of_nine():
    assert median_interval([*range(8), 1e9])[1] <= 7


@pytest.mark.parametrize("sizes", [(2,) * 4, (5,) * 9, (30,) * 9, (4, 4, 3, 4, 4, 4)])
def test_values_of_rounds_that_are_alike_hold_the_median_about_as_often(sizes):
    """A fifth of the variance is that of rounds. Unaware of them the interval holds it in 60 to 93 of 100."""
    rng, rounds = np.random.default_rng(len(sizes)), np.repeat(np.arange(len(sizes)), sizes)
    held = []
    for _ in range(600):
        values = rng.standard_normal(len(rounds)) + 0.5 * rng.standard_normal(len(sizes))[rounds]
        low, high = median_interval(values, rounds)
        held.append(low <= 0 <= high)
    assert LEVEL - 0.03 - 4 * np.sqrt(LEVEL * (1 - LEVEL) / 600) < np.mean(held)


def test_rounds_that_are_all_different_widen_the_interval_to_all_values():
    values = np.repeat([0.0, 1.0, 2.0, 3.0], 3) + np.tile([0.0, 0.01, 0.02], 4)
    assert median_interval(values, np.repeat(np.arange(4), 3)) == pytest.approx((0.0, 3.02))


@pytest.mark.parametrize("rounds", [np.tile(np.arange(4), 6), np.repeat([0, 1], 12), np.arange(24)])
def test_rounds_that_are_alike_or_two_or_of_one_value_each_change_nothing(rounds):
    values = np.arange(24.0)
    assert median_interval(values, rounds) == median_interval(values)

"""A nearly distribution-free 95 % confidence interval for the median.

The k-th smallest and the k-th largest of n values enclose the median with a probability that depends on n and
k only: the number of values below it is binomial with probability 1/2. Between the two k whose probabilities
enclose 95 % the ends are interpolated (T. P. Hettmansperger and S. J. Sheather, Confidence intervals based on
interpolated order statistics, Statistics & Probability Letters 4, 75-79, 1986), which is exact for double
exponential distributions and close for other smooth ones; for values in a few groups the coverage may be as
low as that of the inner order statistics. The percentile bootstrap of a median also has ends at order
statistics, but for seven values at those with a coverage of 87.5 %.

Values that come in rounds are not independent. The ends are then moved away from the middle, by the square
root of the `design_effect`, but not beyond the least and the largest value.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from layernorm_backward.timing.design_effect import design_effect

LEVEL = 0.95
FEWEST = 6  # values: for fewer even the least and the largest enclose the median too seldom


def median_interval(
    values: Sequence[float] | NDArray[np.float64], rounds: ArrayLike | None = None
) -> tuple[float, float]:
    """The ends for values (n,), in any order, with round numbers (n,); NaN for fewer than FEWEST values."""
    count, ordered = len(values), np.sort(values)
    if count < FEWEST:
        return float("nan"), float("nan")
    k, inward = _ends(count)
    effect = 1.0 if rounds is None else design_effect(np.asarray(values), rounds)
    middle, places = (count + 1) / 2, np.arange(1, count + 1)
    away = (middle - k - inward) * np.sqrt(effect)
    low, high = np.interp([middle - away, middle + away], places, ordered)
    return float(low), float(high)


@cache
def _ends(count: int) -> tuple[int, float]:
    """The largest k whose coverage is at least LEVEL, and the fraction of the step to k + 1.

    Integers are divided by integers: beyond 1023 values they are too large for float64.
    """
    whole, ways, fewer = 2**count, 1, 0
    held = before = 1.0  # by the (k + 1)-th smallest and largest; by the k-th
    for k in range(count // 2):
        fewer += ways
        before, held = held, 1 - 2 * fewer / whole
        if held < LEVEL:
            break
        ways = ways * (count - k) // (k + 1)
    part = (before - LEVEL) / (before - held)
    return k, (count - k) * part / (k + (count - 2 * k) * part)

"""An interval that holds the median of a distribution in 95 of 100 samples of it, for many distributions.

The k-th smallest and the k-th largest of n values have the median between them with a probability that only n
and k tell: as many values may lie below it as heads fall in n throws of a coin. Between the two k nearest to
95 % the ends are interpolated (T. P. Hettmansperger and S. J. Sheather, Confidence intervals based on
interpolated order statistics, Statistics & Probability Letters 4, 75-79, 1986), which is exact for double
exponential distributions and close for other smooth ones; where values come in few groups it may hold the
median as seldom as the inner order statistics do. The percentile bootstrap of a median has ends at order
statistics as well, but of seven values at those that hold it in 87.5 of 100.

Values that come in rounds are not independent. The ends then lie further from the middle, by the root of
their `design_effect`, but no further than the least and the largest value.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from layernorm_backward.timing.design_effect import design_effect

LEVEL = 0.95
FEWEST = 6  # values: of fewer even the least and the largest leave the median out too often


def median_interval(
    values: Sequence[float] | NDArray[np.float64], rounds: ArrayLike | None = None
) -> tuple[float, float]:
    """Of values (n,), in any order, and the numbers of their rounds (n,); NaN for fewer than FEWEST."""
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
    """The largest k whose order statistics hold the median often enough, and the way inward to the next ones.

    Whole numbers are divided by whole numbers: beyond 1023 values they are too large for float64.
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

"""Slopes of measured points on log-log axes: Theil and Sen's, with the interval of Sen (1968).

The slope is the median over all pairs of points, so one point that a busy machine or a lucky row spoilt does
not move it. Fewer than FEWEST points have no interval (NaN): for 2, 3 and 4 of them the widest that there is,
from the least to the largest slope of a pair, holds the true one less often than CONFIDENCE says.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

CONFIDENCE = 0.95
FEWEST = 5


class Slope(NamedTuple):
    """The exponent p of y ~ x**p, the ends of its interval (NaN: none), and how many points were fitted."""

    value: float
    low: float
    high: float
    points: int


def slope(x: ArrayLike, y: ArrayLike) -> Slope:
    """The slope of log(y) against log(x), both (n,).

    ValueError where they are not positive and finite, or less than 2 x differ.
    """
    x, y = (np.asarray(values, dtype=float) for values in (x, y))
    if not (np.isfinite(x) & np.isfinite(y) & (x > 0) & (y > 0)).all():
        raise ValueError("a slope on log-log axes needs positive, finite points")
    if np.unique(x).size < 2:
        raise ValueError(f"a slope needs 2 different x; there are {np.unique(x).size}")
    value, _, low, high = stats.theilslopes(np.log(y), np.log(x), alpha=CONFIDENCE)
    if x.size < FEWEST:
        low = high = np.nan
    return Slope(float(value), float(low), float(high), x.size)

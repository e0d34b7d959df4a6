"""Slopes of measured points on log-log axes by the Theil-Sen estimator, with the interval of Sen (1968).

The slope is the median over all pairs of points, so a single outlier, from a busy machine or an unusual row,
does not move it. With fewer than FEWEST points there is no interval (NaN): with 2, 3 or 4 points even the
widest possible one, from the minimum to the maximum slope of a pair, has a coverage below CONFIDENCE.
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

    ValueError where a value is not positive and finite, or fewer than 2 values of x differ.
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

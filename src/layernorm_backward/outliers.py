"""Rows of two neighbouring numbers of the dtype, constant but for a few elements: the largest kappa.

With a = f*2^e, 1 <= f < 2, and k of D elements one step of 2*u*2^e above a, the deviation is that step times
sqrt(p*(1 - p)), p = k/D, and kappa = f/(2*u*sqrt(p*(1 - p))): from 1/u up to sqrt(D)/u. Gaussian rows reach
only about 1/u, where the spacing of the dtype's numbers is as large as their standard deviation.
"""

import math
from typing import Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from layernorm_backward.dtypes import largest, round_to, unit_roundoff

MIDDLE, SPREAD = 1.5, 0.1
Data = Literal["gaussian", "outlier"]  # kinds of rows with a given kappa: N(mean, 1), and these


def rows(rng: np.random.Generator, count: int, hidden: int, dtype: DTypeLike, kappa: float) -> NDArray:
    """Rows (count, hidden) of this median kappa and a standard deviation near 1; f and positions are random.

    The deviation is smaller where such large numbers would overflow, as in float16 far above 1/u.
    ValueError for a kappa that no such row has.
    """
    step = 2 * unit_roundoff(dtype)
    share = (MIDDLE / (step * kappa)) ** 2
    ones = round(hidden * (1 - np.sqrt(max(1 - 4 * share, 0))) / 2)
    p = ones / hidden
    middle = kappa * step * np.sqrt(p * (1 - p))
    if not (1 + SPREAD <= middle <= 2 - 2 * SPREAD and ones):
        raise ValueError(f"no row of {hidden} neighbours in {np.dtype(dtype)} has kappa {kappa:g}")
    power = min(-math.log2(step * math.sqrt(p * (1 - p))), math.log2(largest(dtype)) - 1)
    f = rng.uniform(middle * (1 - SPREAD), middle * (1 + SPREAD), (count, 1))
    base = np.round(f / step) * step
    up = rng.permuted(np.arange(hidden) < ones + np.zeros((count, 1)), axis=-1)
    return round_to((base + step * up) * 2.0 ** np.floor(power), dtype)

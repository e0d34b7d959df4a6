"""Functions whose NumPy versions round differently on different processors, here with the same bits on all.

NumPy's power and logarithms come from vector libraries where there is AVX-512, and from the C library where
there is not, as here; scalar products, and norms of whole arrays with them, come from BLAS. Its sums, roots
and products of real numbers are the same everywhere. Tables that hold errors are to be the same on any
machine.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

_power = np.frompyfunc(math.pow, 2, 1)


def power(base: ArrayLike, exponent: float) -> NDArray[np.float64]:
    """base**exponent in float64, element by element; ValueError or OverflowError where there is no number."""
    return np.asarray(_power(np.asarray(base, np.float64), exponent), np.float64)


def norm(array: ArrayLike) -> np.float64:
    """The 2-norm of all elements, whose squares are added in pairs, as NumPy does along an axis."""
    return np.linalg.norm(np.ravel(array), axis=-1)


def decades(first: float, last: float, count: int) -> NDArray[np.float64]:
    """`count` numbers from `first` to `last`, both exactly, at equal ratios, as np.geomspace has them."""
    if count < 2:
        return np.array([first] * count)
    ratio = last / first
    between = [first * math.pow(ratio, step / (count - 1)) for step in range(1, count - 1)]
    return np.array([first, *between, last])

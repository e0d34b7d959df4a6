"""Functions that round alike on all processors, unlike NumPy's own versions of them.

NumPy's power and logarithms come from vector libraries on processors with AVX-512, elsewhere from the C
library, as these always do. Its scalar products, and so its norms of whole arrays, come from BLAS. Its sums,
roots and products of real numbers are the same everywhere. With this, tables of errors are the same on any
machine.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

_power = np.frompyfunc(math.pow, 2, 1)


def power(base: ArrayLike, exponent: float) -> NDArray[np.float64]:
    """base**exponent in float64, per element; ValueError or OverflowError where there is no number."""
    return np.asarray(_power(np.asarray(base, np.float64), exponent), np.float64)


def norm(array: ArrayLike) -> np.float64:
    """The 2-norm of all elements, squares summed pairwise, as NumPy does along an axis."""
    return np.linalg.norm(np.ravel(array), axis=-1)


def decades(first: float, last: float, count: int) -> NDArray[np.float64]:
    """`count` numbers at equal ratios from `first` to `last`, both exact, as np.geomspace returns."""
    if count < 2:
        return np.array([first] * count)
    ratio = last / first
    between = [first * math.pow(ratio, step / (count - 1)) for step in range(1, count - 1)]
    return np.array([first, *between, last])

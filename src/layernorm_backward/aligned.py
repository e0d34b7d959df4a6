"""Arrays that begin at a cache line or a page, which NumPy's own do not (they lie at 16 modulo 64)."""

import math

import numpy as np
from numpy.typing import DTypeLike, NDArray

PAGE = 4096


def aligned_empty(shape: int | tuple[int, ...], dtype: DTypeLike, align: int = PAGE) -> NDArray:
    """An array like np.empty whose first element lies at a multiple of `align` bytes."""
    dtype = np.dtype(dtype)
    size = (shape if isinstance(shape, int) else math.prod(shape)) * dtype.itemsize
    raw = np.empty(size + align, np.uint8)
    return np.ndarray(shape, dtype, raw, -raw.ctypes.data % align)

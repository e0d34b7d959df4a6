"""Arrays with a given alignment and offset; NumPy places large ones 16 bytes into a page."""

import math
from itertools import pairwise

import numpy as np
from numpy.typing import DTypeLike, NDArray

PAGE = 4096


def aligned_empty(
    shape: int | tuple[int, ...], dtype: DTypeLike, align: int = PAGE, behind: int = 0
) -> NDArray:
    """An array like np.empty whose first element lies `behind` bytes after a multiple of `align` bytes."""
    dtype = np.dtype(dtype)
    size = (shape if isinstance(shape, int) else math.prod(shape)) * dtype.itemsize
    raw = np.empty(size + align, np.uint8)
    return np.ndarray(shape, dtype, raw, (behind - raw.ctypes.data) % align)


def apart(*arrays: NDArray) -> int:
    """The offset within a page that is farthest from the offsets at which these arrays begin."""
    starts = sorted(array.ctypes.data % PAGE for array in arrays)
    gaps = [after - start for start, after in pairwise([*starts, starts[0] + PAGE])]
    widest = max(gaps)
    return (starts[gaps.index(widest)] + widest // 2) % PAGE

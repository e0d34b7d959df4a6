"""Arrays that begin where they are wanted, which NumPy's own do not (large ones lie 16 bytes into a page)."""

import math
from itertools import pairwise

import numpy as np
from numpy.typing import DTypeLike, NDArray

PAGE = 4096


def aligned_empty(
    shape: int | tuple[int, ...], dtype: DTypeLike, align: int = PAGE, behind: int = 0
) -> NDArray:
    """An array like np.empty whose first element lies `behind` a multiple of `align` bytes."""
    dtype = np.dtype(dtype)
    size = (shape if isinstance(shape, int) else math.prod(shape)) * dtype.itemsize
    raw = np.empty(size + align, np.uint8)
    return np.ndarray(shape, dtype, raw, (behind - raw.ctypes.data) % align)


def apart(*arrays: NDArray) -> int:
    """Bytes behind the beginning of a page that lie farthest from where these arrays begin in one."""
    starts = sorted(array.ctypes.data % PAGE for array in arrays)
    gaps = [after - start for start, after in pairwise([*starts, starts[0] + PAGE])]
    widest = max(gaps)
    return (starts[gaps.index(widest)] + widest // 2) % PAGE

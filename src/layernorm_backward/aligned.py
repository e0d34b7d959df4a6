"""Arrays with a given alignment and page offset; NumPy places large ones 16 bytes into a page."""

import math
from itertools import pairwise

import numpy as np
from numpy.typing import DTypeLike, NDArray

PAGE = 4096


def aligned_empty(
    shape: int | tuple[int, ...], dtype: DTypeLike, align: int = PAGE, offset: int = 0
) -> NDArray:
    """An array like np.empty whose address is `offset` bytes above a multiple of `align`."""
    dtype = np.dtype(dtype)
    size = (shape if isinstance(shape, int) else math.prod(shape)) * dtype.itemsize
    raw = np.empty(size + align, np.uint8)
    return np.ndarray(shape, dtype, raw, (offset - raw.ctypes.data) % align)


def farthest_page_offset(*arrays: NDArray) -> int:
    """The offset within a page that is farthest from the page offsets of these arrays."""
    starts = sorted(array.ctypes.data % PAGE for array in arrays)
    gaps = [after - start for start, after in pairwise([*starts, starts[0] + PAGE])]
    widest = max(gaps)
    return (starts[gaps.index(widest)] + widest // 2) % PAGE

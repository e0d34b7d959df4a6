"""Arrays between two pages of known bytes, so that writes beyond their ends are detected."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from layernorm_backward.aligned import PAGE, aligned_empty

_MARK = 0xA5


class Guarded(NamedTuple):
    """An array at a page's boundary, and a page on either side of it."""

    array: NDArray
    before: NDArray[np.uint8]
    after: NDArray[np.uint8]

    def overrun(self) -> str:
        """Where there is written beside the array, in words that its name completes; "" where nowhere."""
        if not (self.before == _MARK).all():
            return "before the beginning of"
        return "" if (self.after == _MARK).all() else "past the end of"


def guarded(shape: tuple[int, ...], dtype: DTypeLike) -> Guarded:
    """An array like np.empty."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = aligned_empty(size + 2 * PAGE, np.uint8)
    before, within, after = np.split(memory, [PAGE, PAGE + size])
    before.fill(_MARK)
    after.fill(_MARK)
    return Guarded(within.view(dtype).reshape(shape), before, after)

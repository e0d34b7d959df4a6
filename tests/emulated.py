"""The host emulation in the tests: skipped with a reason where it cannot be compiled, but never in CI."""

import os

import numpy as np
import pytest

from layernorm_backward.kernels.cuda import emulation

MISSING = "" if os.environ.get("CI") else emulation.missing()
needs_compiler = pytest.mark.skipif(bool(MISSING), reason=MISSING or "there is a compiler")


def placed(array, offset):
    """A copy that begins `offset` elements after a multiple of 16 bytes."""
    lanes = 16 // array.itemsize
    buffer = np.empty(array.size + 2 * lanes, array.dtype)
    start = (-(buffer.ctypes.data // array.itemsize)) % lanes + offset
    copy = buffer[start : start + array.size].reshape(array.shape)
    copy[...] = array
    return copy

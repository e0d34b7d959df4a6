"""Memory without a name that several processes share: it is gone when the last of them ends, however it ends.

`multiprocessing.shared_memory` has names: before Python 3.13 a process that only looks on removes the
block when it ends. Linux: memfd_create; elsewhere a temporary file that is already unlinked, whose pages
the system may write to disk while something is timed.
"""

import mmap
import os
import tempfile

import numpy as np
from numpy.typing import NDArray


class SharedMemory:
    """`bytes` of shared memory, as `array` (uint8), at a page boundary; `descriptor` is what others map."""

    def __init__(self, size: int) -> None:
        self.descriptor = _file()
        os.ftruncate(self.descriptor, size)
        self.array = mapped(self.descriptor, size)

    def close(self) -> None:
        """Let go of it; the array stays usable in this process as long as it is held."""
        os.close(self.descriptor)


def mapped(descriptor: int, size: int) -> NDArray[np.uint8]:
    """The first `size` bytes of shared memory as an array."""
    return np.frombuffer(mmap.mmap(descriptor, size), np.uint8)


def _file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("layernorm_backward")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())

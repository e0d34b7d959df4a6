"""Anonymous shared memory, which is freed when the last process that maps it ends, in whatever way.

`multiprocessing.shared_memory` uses names: before Python 3.13 a process that only attaches removes the block
when it ends. On Linux this uses memfd_create; elsewhere an unlinked temporary file, whose pages the system
may write to disk during a timing.
"""

import mmap
import os
import tempfile

import numpy as np
from numpy.typing import NDArray


class SharedMemory:
    """`bytes` of shared memory, as `array` (uint8), at a page boundary; other processes map `descriptor`."""

    def __init__(self, size: int) -> None:
        self.descriptor = _file()
        os.ftruncate(self.descriptor, size)
        self.array = mapped(self.descriptor, size)

    def close(self) -> None:
        """Close the descriptor; the array stays usable in this process."""
        os.close(self.descriptor)


def mapped(descriptor: int, size: int) -> NDArray[np.uint8]:
    """The first `size` bytes of shared memory as an array."""
    return np.frombuffer(mmap.mmap(descriptor, size), np.uint8)


def _file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("layernorm_backward")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())

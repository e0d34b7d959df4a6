"""Makes the allocator retain freed memory, so that no timed call waits for page faults.

glibc returns large blocks to the system and maps them again for the next call. A NumPy kernel with many large
temporary arrays then spends a third of its time in page faults, and whether it does depends on what was freed
before. The environment variables MALLOC_MMAP_MAX_ and MALLOC_TRIM_THRESHOLD_ have the same effect.
"""

import ctypes
import platform

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # mallopt's names for them, in glibc's malloc.h
_MOST = 2**31 - 1  # bytes


def keep_freed() -> bool:
    """Retain freed memory from now on; returns whether that was possible, which needs glibc."""
    if platform.libc_ver()[0] != "glibc":
        return False
    set_option = ctypes.CDLL(None).mallopt
    return bool(set_option(_MMAP_MAX, 0)) and bool(set_option(_TRIM_THRESHOLD, _MOST))

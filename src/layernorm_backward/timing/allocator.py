"""Freed memory stays in the process, so that no timed call waits for pages to be mapped and cleared anew.

glibc returns large blocks to the system and maps them again for the next call. A NumPy kernel of many large
temporary arrays then spends a third of its time in page faults, and whether it does depends on what was
freed before it. Whoever cares sets the same by MALLOC_MMAP_MAX_ and MALLOC_TRIM_THRESHOLD_.
"""

import ctypes
import platform

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # mallopt's names for them, in glibc's malloc.h
_MOST = 2**31 - 1  # bytes


def keep_freed() -> bool:
    """Whether the C library does so from now on; it can be asked where it is glibc."""
    if platform.libc_ver()[0] != "glibc":
        return False
    set_option = ctypes.CDLL(None).mallopt
    return bool(set_option(_MMAP_MAX, 0)) and bool(set_option(_TRIM_THRESHOLD, _MOST))

"""Memory that a call frees stays in the process, where the C library can be asked for it."""

import platform
import subprocess
import sys

import pytest

from layernorm_backward.timing import allocator

FAULTS = """
import resource
import numpy as np
from layernorm_backward.timing import allocator
if {asked}:
    assert allocator.keep_freed()
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [np.ones(3 << 20, np.uint8) for _ in range(8)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""


def faults(asked):
    """Page faults of the second time that 24 MiB are taken and freed, in blocks too small for huge pages."""
    command = [sys.executable, "-c", FAULTS.format(asked=asked)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_freed_memory_is_reused_without_page_faults():
    assert faults(asked=True) < 100 < faults(asked=False)


def test_another_c_library_is_not_asked(monkeypatch):
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert not allocator.keep_freed()

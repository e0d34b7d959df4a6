"""The CUDA sources under AddressSanitizer and ThreadSanitizer; each injected fault is caught.

What a checker watches runs in a separate process (`cuda_checked.py`), with the checker's library loaded
first.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from cuda_cases import CLEAN
from cuda_checked import PASSED
from cuda_faults import FAULTS
from emulated import needs_compiler
from layernorm_backward.kernels.cuda import emulation
from layernorm_backward.kernels.cuda.machine import SOURCES

pytestmark = needs_compiler

PROGRAM = Path(__file__).with_name("cuda_checked.py")
OPTIONS = {
    "plain": {},
    "address": {"ASAN_OPTIONS": "detect_leaks=0"},
    "thread": {"TSAN_OPTIONS": "halt_on_error=1:exitcode=66:atexit_sleep_ms=0"},
}
WATCHED = ("address", "thread")


@cache
def at_fixed_addresses() -> tuple[str, ...]:
    """The command that disables address randomization, with which ThreadSanitizer may fail; () if refused."""
    command = ("setarch", platform.machine(), "-R")
    if not shutil.which(command[0]) or subprocess.run([*command, "true"], capture_output=True).returncode:
        return ()
    return command


def checked(checker: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `cuda_checked.py` under a checker."""
    environment = os.environ | OPTIONS[checker] | {"OPENBLAS_NUM_THREADS": "1"}
    if checker in WATCHED:
        environment["LD_PRELOAD"] = emulation.runtime(checker)
    before = at_fixed_addresses() if checker == "thread" else ()
    command = [*before, sys.executable, str(PROGRAM), checker, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def skip_without(checker: str) -> None:
    """Skip where the compiler has no library for a checker, but never in CI."""
    if checker in WATCHED and not os.environ.get("CI") and not Path(emulation.runtime(checker)).is_file():
        pytest.skip(f"{emulation.COMPILER} has no library for the checker {checker!r}")


@pytest.mark.parametrize("checker", WATCHED)
@pytest.mark.parametrize("group", list(CLEAN))
def test_the_sources_are_clean(checker, group):
    skip_without(checker)
    done = checked(checker, "clean", group)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_caught(fault, tmp_path):
    skip_without(fault.checker)
    sources = tmp_path / "sources"
    shutil.copytree(SOURCES, sources, ignore=shutil.ignore_patterns("__pycache__"))
    fault.inject(sources)
    done = checked(fault.checker, "fault", fault.name, str(sources))
    assert done.stdout == f"{PASSED}\n", done.stdout + done.stderr
    assert done.returncode != 0
    assert re.search(fault.caught, done.stderr), done.stderr


def test_fault_names_are_unique():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 15

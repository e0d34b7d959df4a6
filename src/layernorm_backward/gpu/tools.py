"""Runs NVIDIA's profiler and sanitizer on a process that executes one pass of a kernel or peer."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from layernorm_backward.gpu.one_pass import DONE
from layernorm_backward.gpu.reasons import Transient

ROOT = Path("/")
PLACES = {
    "ncu": ("opt/nvidia/nsight-compute/*/ncu", "usr/local/cuda*/bin/ncu"),
    "compute-sanitizer": (
        "usr/local/cuda*/compute-sanitizer/compute-sanitizer",
        "usr/local/cuda*/bin/compute-sanitizer",
    ),
}
LIMIT_S = 120.0


class Unfinished(Transient):
    """A tool has used all of LIMIT_S, and is likely to do so again."""


class Pass(NamedTuple):
    """A pass of a kernel or peer: the command-line arguments of `one_pass`."""

    name: str
    direction: str
    dtype: str
    rows: int
    hidden: int


class Done(NamedTuple):
    """The output of a tool and of the process under it, and why the pass did not finish ("" if it did)."""

    output: str
    fault: str

    @classmethod
    def of(cls, status: int, output: str, errors: str) -> "Done":
        """`fault` is empty where the pass finished, else the last line that the process itself printed."""
        text = f"{output}\n{errors}"
        if status == 0 and DONE in text.splitlines():
            return cls(text, "")
        own = [line.strip() for line in (*output.splitlines(), *errors.splitlines()) if line.strip(" =")]
        own = [line for line in own if not line.startswith("==") and line != DONE] or own or ["no output"]
        return cls(text, f"the pass failed (exit status {status}): {own[-1][:200]}")


def path(tool: str) -> str | None:
    """The path of a tool: on PATH, else the newest version where NVIDIA installs it; None if not found."""
    found = [one for place in PLACES[tool] for one in ROOT.glob(place) if os.access(one, os.X_OK)]
    return shutil.which(tool) or max(map(str, found), key=_version, default=None)


def over(tool: str, options: Sequence[str], what: Pass, time_left: float) -> Done | Transient:
    """Run a tool on a pass; a reason where it is not installed, or takes too long."""
    there = path(tool)
    if there is None:
        return Transient(f"{tool} is not installed")
    one_pass = [sys.executable, "-m", "layernorm_backward.gpu.one_pass", *map(str, what)]
    limit = max(min(LIMIT_S, time_left), 0.0)
    try:
        return Done.of(*_run([there, *options, *one_pass], limit))
    except subprocess.TimeoutExpired:
        reason = f"{tool} did not finish within {limit:.0f} s"
        return Transient(reason) if limit < LIMIT_S else Unfinished(reason)


def _run(command: Sequence[str], limit_s: float) -> tuple[int, str, str]:
    """Exit status, stdout and stderr; on timeout or interruption the whole process group is killed."""
    started = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, errors="replace", start_new_session=True, **started) as process:
        try:
            output, errors = process.communicate(timeout=limit_s)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, output, errors


def _version(path: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path)]

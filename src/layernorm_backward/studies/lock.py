"""The lock that a killed Snakemake leaves behind, removed if no run is alive that could hold it.

A run killed at once (SIGKILL, power) leaves files in .snakemake/locks, and the next one refuses to start.
A job of the killed run may live on; it is waited for, so that two processes never write one table.
"""

import sys
from itertools import pairwise
from pathlib import Path

import psutil

LOCKS = Path(".snakemake/locks")


def release_stale(root: Path) -> None:
    """Remove the lock files below `root` unless a Snakemake runs there, this process apart."""
    held = list((root / LOCKS).glob("*"))
    if not held or _running(root, "snakemake", where_unknown=True):
        return
    for job in _running(root, "layernorm_backward", where_unknown=False):
        print(f"waiting for process {job.pid}, left over from a run that was killed", file=sys.stderr)
        psutil.wait_procs([job])
    for path in held:
        path.unlink(missing_ok=True)


def _running(root: Path, program: str, *, where_unknown: bool) -> list[psutil.Process]:
    """The processes of `program` at work in `root`, less this one and those that started it.

    Those whose folder cannot be told, as of another user's, are among them if `where_unknown`.
    """
    own = {psutil.Process().pid, *(parent.pid for parent in psutil.Process().parents())}
    return [
        process
        for process in psutil.process_iter()
        if process.pid not in own and _is(process, program) and _at_work_in(process, root, where_unknown)
    ]


def _is(process: psutil.Process, program: str) -> bool:
    """Whether the command is `program ...` or `python -m program ...`, with any options of Python's."""
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    first = [word for word in words if not word.startswith("-")][:2]
    return ("-m", program) in pairwise(words) or any(Path(word).name == program for word in first)


def _at_work_in(process: psutil.Process, root: Path, where_unknown: bool) -> bool:
    try:
        return Path(process.cwd()).resolve() == root.resolve()
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return where_unknown

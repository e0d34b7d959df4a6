"""Bytes moved between a GPU and its memory in one pass, counted by Nsight Compute."""

import csv
from typing import NamedTuple

from layernorm_backward.gpu import tools
from layernorm_backward.gpu.reasons import Transient
from layernorm_backward.gpu.tools import Done, Pass, Unfinished

TOOL = "ncu"
METRICS = ("dram__bytes_read.sum", "dram__bytes_write.sum")
OPTIONS = ("--csv", "--print-units", "base", "--metrics", ",".join(METRICS), "--target-processes", "all")
OPTIONS += ("--clock-control", "none", "--cache-control", "all", "--profile-from-start", "off")


class Counted(NamedTuple):
    """Bytes of all kernels of a pass, and the number of kernels; or why nothing was counted."""

    bytes: float
    kernels: int
    reason: str


def counted(what: Pass, time_left: float) -> Counted:
    """Count one pass in a process of its own; caches are flushed before each of its kernels.

    If the tool has used all of its time, the reason is not transient: it is not tried again.
    """
    done = tools.over(TOOL, OPTIONS, what, time_left)
    if isinstance(done, Unfinished):
        return _nothing(str(done))
    return _nothing(done) if isinstance(done, Transient) else read(done)


def read(done: Done) -> Counted:
    """The sum over the output of ncu, which holds a line of CSV for each kernel and metric."""
    lines = [line for line in done.output.splitlines() if line.startswith('"')]
    rows = [row for row in csv.DictReader(lines) if row.get("Metric Name") in METRICS]
    if done.fault or not rows:
        return _nothing(Transient(f"{TOOL}: {'; '.join(_errors(done))}"))
    total = sum(float(row["Metric Value"].replace(",", "")) for row in rows)
    return Counted(total, len({row["ID"] for row in rows}), "")


def _errors(done: Done) -> list[str]:
    """The first error of ncu, and the fault of the pass."""
    errors = [line[:200] for line in done.output.splitlines() if line.startswith("==ERROR==")]
    return [*errors[:1], *filter(None, [done.fault])] or ["no counters in its output"]


def _nothing(reason: str) -> Counted:
    return Counted(float("nan"), 0, reason)

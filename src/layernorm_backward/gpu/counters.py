"""Bytes between a GPU and its memory in one pass, counted by Nsight Compute."""

import csv
from typing import NamedTuple

from layernorm_backward.gpu import tools
from layernorm_backward.gpu.reasons import Passing
from layernorm_backward.gpu.tools import Done, Pass, Unfinished

TOOL = "ncu"
METRICS = ("dram__bytes_read.sum", "dram__bytes_write.sum")
OPTIONS = ("--csv", "--print-units", "base", "--metrics", ",".join(METRICS), "--target-processes", "all")
OPTIONS += ("--clock-control", "none", "--cache-control", "all", "--profile-from-start", "off")


class Counted(NamedTuple):
    """Bytes of all kernels of a pass, and their number; or why there are none."""

    bytes: float
    kernels: int
    reason: str


def counted(what: Pass, time_left: float) -> Counted:
    """One pass in a process of its own; caches are emptied before each of its kernels.

    Where the tool has had all its time, the reason is one that stays: it is not tried again.
    """
    done = tools.over(TOOL, OPTIONS, what, time_left)
    if isinstance(done, Unfinished):
        return _nothing(str(done))
    return _nothing(done) if isinstance(done, Passing) else read(done)


def read(done: Done) -> Counted:
    """The sum over what ncu printed: a line of CSV for each kernel and metric, among others."""
    lines = [line for line in done.output.splitlines() if line.startswith('"')]
    rows = [row for row in csv.DictReader(lines) if row.get("Metric Name") in METRICS]
    if done.fault or not rows:
        return _nothing(Passing(f"{TOOL}: {'; '.join(_told(done))}"))
    total = sum(float(row["Metric Value"].replace(",", "")) for row in rows)
    return Counted(total, len({row["ID"] for row in rows}), "")


def _told(done: Done) -> list[str]:
    """What ncu itself says, and what became of the pass."""
    errors = [line[:200] for line in done.output.splitlines() if line.startswith("==ERROR==")]
    return [*errors[:1], *filter(None, [done.fault])] or ["no counters in its output"]


def _nothing(reason: str) -> Counted:
    return Counted(float("nan"), 0, reason)

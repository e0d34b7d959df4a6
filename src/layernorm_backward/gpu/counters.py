"""Bytes between a GPU and its memory in one pass, counted by Nsight Compute."""

import csv
import shutil
import subprocess
import sys
from typing import NamedTuple

TOOL = "ncu"
METRICS = ("dram__bytes_read.sum", "dram__bytes_write.sum")
LIMIT_S = 120


class Counted(NamedTuple):
    """Bytes of all kernels of a pass, and their number; or why there are none."""

    bytes: float
    kernels: int
    reason: str


def counted(kernel: str, direction: str, dtype: str, rows: int, hidden: int) -> Counted:
    """One pass in a process of its own; caches are emptied before each of its kernels."""
    if shutil.which(TOOL) is None:
        return Counted(float("nan"), 0, f"{TOOL} is not installed")
    options = ["--csv", "--print-units", "base", "--metrics", ",".join(METRICS)]
    options += ["--clock-control", "none", "--cache-control", "all", "--profile-from-start", "off"]
    passing = ["-m", "layernorm_backward.gpu.one_pass", kernel, direction, dtype, str(rows), str(hidden)]
    command = [TOOL, *options, sys.executable, *passing]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return Counted(float("nan"), 0, f"{TOOL} took more than {LIMIT_S} s")
    return read(done.stdout)


def read(output: str) -> Counted:
    """The sum over what ncu printed: a line of CSV for each kernel and metric, among others."""
    lines = [line for line in output.splitlines() if line.startswith('"')]
    rows = [row for row in csv.DictReader(lines) if row.get("Metric Name") in METRICS]
    if not rows:
        told = [line for line in output.splitlines() if line.startswith("==ERROR==")] or [
            "no counters in its output"
        ]
        return Counted(float("nan"), 0, f"{TOOL}: {told[0][:200]}")
    total = sum(float(row["Metric Value"].replace(",", "")) for row in rows)
    return Counted(total, len({row["ID"] for row in rows}), "")

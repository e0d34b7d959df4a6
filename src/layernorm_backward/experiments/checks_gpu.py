"""Are the CUDA kernels right on this GPU, and the same on every run? Measured before anything is timed.

    results    y, dx, dgamma, dbeta against float64 (`gpu.exact`), outputs poisoned with NaN before
    repeats    the same bits in `runs` runs
    memcheck, racecheck, initcheck, synccheck
               one pass of each map under NVIDIA's compute-sanitizer

value is the largest error in u of the dtype, the number of runs that differ, or of errors that the tool
found.
"""

import sys
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from layernorm_backward.dtypes import DtypeName, dtype_of
from layernorm_backward.gpu import campaign, contenders, exact, sanitizer
from layernorm_backward.gpu.board import Board, unsigned
from layernorm_backward.gpu.rows import Pool

STEM = "checks_gpu"
REQUIRES = ("cupy", "a CUDA device")
Rows = list[dict[str, Any]]


class Cell(NamedTuple):
    """A check on rows of one shape and dtype."""

    check: str
    dtype: str
    gamma_dtype: str
    rows: int
    hidden: int


def run(
    *,
    kernels: list[str],
    dtypes: list[DtypeName],
    hidden: list[int],
    rows: list[int],
    large: list[tuple[DtypeName, int, int]],
    repeated: list[int],
    tools: list[str],
    sanitized: list[int],
    limits_u: dict[str, float],
    runs: int,
    eps: float,
    seed: int,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row a check, kernel, dtypes and shape."""
    return campaign.live(sys.modules[__name__], locals())


def cells(
    *,
    kernels: list[str],
    dtypes: list[str],
    hidden: list[int],
    rows: list[int],
    large: list[tuple[str, int, int]],
    repeated: list[int],
    tools: list[str],
    sanitized: list[int],
    **_: Any,
) -> dict[Cell, list[str]]:
    """The kernels of each cell. `large` are (dtype, rows, D) that only the first kernel is checked on."""
    pairs = [(dtype, dtype) for dtype in dtypes]
    pairs += [(dtype, "float32") for dtype in dtypes if dtype_of(dtype).itemsize == 2]
    found = {
        Cell("results", *pair, rows[number % len(rows)], size): kernels
        for pair in pairs
        for number, size in enumerate(hidden)
    }
    found |= {Cell("repeats", *pair, max(rows), size): kernels for pair in pairs for size in repeated}
    found |= {Cell("results", dtype, dtype, count, size): kernels[:1] for dtype, count, size in large}
    few = min(rows)
    return found | {
        Cell(tool, "float32", "float32", few, size): kernels[:1] for tool in tools for size in sanitized
    }


def measure(
    board: Board,
    pool: Pool,
    cell: Cell,
    names: list[str],
    *,
    limits_u: dict[str, float],
    runs: int,
    eps: float,
    **_: Any,
) -> tuple[Rows, Rows]:
    """A row for each kernel; there are no samples."""
    found = []
    for name in names:
        if cell.check == "results":
            values = _results(board, pool, cell, name, limits_u[cell.dtype], eps)
        elif cell.check == "repeats":
            values = _repeats(board, pool, cell, name, runs, eps)
        else:
            values = sanitizer.check(cell.check, name, cell.dtype, cell.rows, cell.hidden)
        found.append(_keys(cell, name) | values)
    return found, []


def unmeasured(cell: Cell, names: list[str], reason: str) -> Rows:
    """The rows of a cell that could not be checked at all."""
    return [_keys(cell, name) | {"reason": reason} for name in names]


def _keys(cell: Cell, name: str) -> dict[str, Any]:
    return {"kernel": name, **cell._asdict(), "reason": ""}


def _results(board: Board, pool: Pool, cell: Cell, name: str, limit: float, eps: float) -> dict[str, Any]:
    given = pool.arrays(cell.rows, cell.hidden, cell.dtype, cell.gamma_dtype)
    try:
        found = contenders.prepare(board, name, given, eps).results()
    except ValueError as error:
        return {"reason": str(error)}
    off = exact.errors(board.xp, given, found, eps)
    worst = float("nan") if any(np.isnan(off)) else max(off)
    return {"passed": bool(worst <= limit), "value": worst, "limit": limit}


def _repeats(board: Board, pool: Pool, cell: Cell, name: str, runs: int, eps: float) -> dict[str, Any]:
    given = pool.arrays(cell.rows, cell.hidden, cell.dtype, cell.gamma_dtype)
    try:
        one = contenders.prepare(board, name, given, eps)
    except ValueError as error:
        return {"reason": str(error)}
    first = [result.view(unsigned(result.dtype)).copy() for result in one.results()]
    differing = 0
    for _ in range(runs - 1):
        for timed in one.passes.values():
            timed.call()
        again = [result.view(unsigned(result.dtype)) for result in one.results()]
        differing += not all(bool((a == b).all()) for a, b in zip(first, again, strict=True))
    return {"passed": differing == 0, "value": float(differing), "limit": 0.0}

"""From which size on non-temporal stores pay: numba_fused with either kind, alone and with a reader behind.

A non-temporal store avoids reading the line that it writes, and leaves nothing in the caches for the next
reader of the result. So each cell is timed twice: the pass by itself (then: nothing), and the pass followed
by a read of its whole result (then: read), on the same threads. ratio is the time with ordinary stores over
that with non-temporal ones, the median of pairs: above 1 the non-temporal ones are faster. Each call is
repeated on the same arrays, the best case for ordinary stores: the line to be written may still be cached
from the call before.

stream: what the plan of numba_fused chooses; median_s is the time with its choice. Both passes are checked
before they are timed; error_u_max is the larger of their errors in some rows.
"""

from typing import Any

import pandas as pd

from layernorm_backward import roofs, stopwatch
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.experiments import _cells
from layernorm_backward.experiments import _variant_checks as check
from layernorm_backward.experiments._arguments import AtLeast, Count, Listed, Positive, Seconds, Seed
from layernorm_backward.experiments._cells import Cell, Sweep
from layernorm_backward.experiments._stores import STORES, followed, plans
from layernorm_backward.kernels import numba_plan
from layernorm_backward.records.tabulate import table
from layernorm_backward.stopwatch import Call
from layernorm_backward.timing import difference
from layernorm_backward.timing.pool import Buffers
from layernorm_backward.timing.timed import labelled, seed_of, times, together, too_many

THEN = ("nothing", "read")
AGAIN = "_again"  # what the plan chooses, a second time, for the noise


def run(
    *,
    sweeps: Listed[Sweep],
    repeats: Count,
    at_least: AtLeast,
    budget_s: Seconds,
    error_rows: Count,
    error_limit_u: Positive,
    seed: Seed,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two rows per cell, one each of `THEN`; `budget_s` is for the repetitions of one cell."""
    how = {"repeats": repeats, "at_least": at_least, "budget_s": budget_s}
    sizes = {cell: _cells.sized(cell) for cell in _cells.cells(sweeps)}  # before memory is taken
    rows, samples = [], []
    for cell, about, arrays in _cells.posed(sizes, seed, "stores"):
        ordered = how | {"seed": seed_of(seed, cell)}
        found, timed = _measured(cell, arrays, error_rows, error_limit_u, ordered)
        rows += [about | {"then": then} | found[then] for then in THEN]
        samples += timed
    return difference.judged(table(rows, "stores"), "ratio"), together(samples)


def _measured(
    cell: Cell, arrays: Buffers, error_rows: int, limit_u: float, how: dict[str, Any]
) -> tuple[dict[str, dict[str, Any]], list[pd.DataFrame]]:
    """The columns measured, by what happens then, and the samples."""
    if too_many(cell.threads):
        return _refused(too_many(cell.threads)), []
    plan = numba_plan.choose(*arrays.x.shape, dtype_of(cell.dtype), cell.direction, cell.threads)
    with stopwatch.threads(cell.threads):
        passes, _, error_u = check.ran(cell.direction, arrays, plans(plan), error_rows)
        if reason := check.wrong(error_u, limit_u):
            return _refused(reason), []
        calls = _calls(passes, roofs.read(arrays.out), plan.stream)
        samples = stopwatch.compare(calls, **how)
    about = {"stream": plan.stream, "error_u_max": error_u}
    found = {then: about | _columns(samples, then, plan.stream) for then in THEN}
    return found, [labelled(samples, **_cells.keys(cell))]


def _refused(reason: str) -> dict[str, dict[str, Any]]:
    return {then: {"reason": reason} for then in THEN}


def _calls(passes: dict[str, Call], read: Call, stream: bool) -> dict[str, Call]:
    """Each pass by itself and followed by a read, and the plan's own choice a second time."""
    calls = {_name(kind, "nothing"): call for kind, call in passes.items()}
    calls |= {_name(kind, "read"): followed(call, read) for kind, call in passes.items()}
    again = {_name(_chosen(stream), then) + AGAIN: calls[_name(_chosen(stream), then)] for then in THEN}
    return calls | again


def _columns(samples: pd.DataFrame, then: str, stream: bool) -> dict[str, Any]:
    ordinary, non_temporal = (_name(kind, then) for kind in STORES)
    chosen = _name(_chosen(stream), then)
    found = stopwatch.ratio(samples, ordinary, non_temporal)
    noise = difference.noise(stopwatch.ratio(samples, chosen + AGAIN, chosen))
    return times(samples, chosen) | found.columns("ratio") | {"noise": noise}


def _chosen(stream: bool) -> str:
    return next(kind for kind, value in STORES.items() if value == stream)


def _name(kind: str, then: str) -> str:
    return kind if then == "nothing" else f"{kind}_{then}"

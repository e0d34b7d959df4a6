"""From the roof to numba_fused, step by step: what each kind of access of its passes costs.

A cell is a working set, dtype, hidden size, direction and thread count. The streams, the steps of
`row_streams` and the pass itself run interleaved on the same arrays, with the pass's plan. A step prefetches
at the distance of the pass, or not at all, and the faster counts: `ahead` says which. The table has for each
step its fraction of the roof, and `added`, its time over that of the step before it (the roof before the
first). The last step's fraction is the roof of a pass that makes these accesses in this order; the remaining
time of the pass is its arithmetic, and its work per row, block and chunk.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from layernorm_backward import stopwatch
from layernorm_backward.compilation import side_by_side
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.experiments import _cells
from layernorm_backward.experiments._arguments import AtLeast, Count, Listed, Positive, Seconds, Seed
from layernorm_backward.experiments._cells import Cell, Sweep
from layernorm_backward.kernels import numba_plan
from layernorm_backward.kernels.numba_fused import KERNEL
from layernorm_backward.kernels.numba_plan import Plan
from layernorm_backward.records.tabulate import table
from layernorm_backward.roofs import row_streams
from layernorm_backward.timing import cell_roof, difference
from layernorm_backward.timing.clock import Call
from layernorm_backward.timing.pool import Buffers
from layernorm_backward.timing.prepared import Prepared, prepare
from layernorm_backward.timing.sizing import Sized
from layernorm_backward.timing.timed import labelled, seed_of, times, together, too_many

PASS = "pass"  # the last step
NOT_ASKED = "_not_asked"  # behind the name of a step


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
    """One row per step and cell, the pass last; `budget_s` is for the repetitions of one cell."""
    how = {"repeats": repeats, "at_least": at_least, "budget_s": budget_s}
    sizes = {cell: _sized(cell) for cell in _cells.cells(sweeps)}  # before memory is taken
    _compile_loops(sizes)
    rows, samples = [], []
    for cell, about, arrays in _cells.posed(sizes, seed, "roof_steps"):
        ready, reason = _checked(cell, arrays, error_rows, error_limit_u)
        if ready is None:
            rows += [about | {"step": name, "reason": reason} for name in steps(cell.direction)]
            continue
        plan = _plan(cell, about["rows"])
        ordered = how | {"seed": seed_of(seed, cell)}
        timed = _timed(cell, arrays, plan, ready, about["residency"], ordered)
        rows += [about | row for row in _rows(cell.direction, about["bytes"], timed, plan.ahead)]
        samples.append(labelled(timed, **_cells.keys(cell)))
    return difference.judged(table(rows, "roof_steps"), "added"), together(samples)


def steps(direction: str) -> tuple[str, ...]:
    """The steps of a direction in their order, the pass among them."""
    return (*row_streams.STEPS[direction], PASS)


def _compile_loops(sizes: Mapping[Cell, Sized]) -> None:
    """Compile the loops that the cells need, each once."""
    loops = {}
    for cell, size in sizes.items():
        plan = _plan(cell, size.rows)
        lags = row_streams.lags(plan, cell.hidden, dtype_of(cell.dtype))
        loops[cell.direction, cell.dtype, plan.group, lags, plan.stream] = cell.hidden, plan
    side_by_side(
        row_streams.compile_steps,
        ((direction, hidden, dtype, plan) for (direction, dtype, *_), (hidden, plan) in loops.items()),
    )


def _plan(cell: Cell, rows: int) -> Plan:
    return numba_plan.choose(rows, cell.hidden, dtype_of(cell.dtype), cell.direction, cell.threads)


def _sized(cell: Cell) -> Sized:
    """The rows of a cell, in whole groups of any plan: a group is sized as one long row."""
    group = max(numba_plan.GROUPS)
    size = _cells.sized(cell._replace(hidden=group * cell.hidden))
    return size._replace(rows=group * size.rows)


def _checked(cell: Cell, arrays: Buffers, rows: int, limit_u: float) -> tuple[Prepared | None, str]:
    """The pass, or None and why it cannot be timed."""
    if too_many(cell.threads):
        return None, too_many(cell.threads)
    ready, refused = prepare({PASS: KERNEL}, cell.direction, arrays, rows, limit_u)
    return (ready[PASS], "") if ready else (None, refused[PASS])


def _timed(
    cell: Cell, arrays: Buffers, plan: Plan, ready: Prepared, residency: str, how: dict[str, Any]
) -> pd.DataFrame:
    """Samples of the streams, of each step with prefetching and without (NOT_ASKED), and of the pass.

    Each ran on a few rows before, so that no first run waits for compiled code.
    """
    few = arrays.first_rows(max(numba_plan.GROUPS))
    with stopwatch.threads(cell.threads):
        for loading in _steps(cell.direction, few, plan, residency).values():
            loading()
        calls = _steps(cell.direction, arrays, plan, residency) | {PASS: ready.call}
        return stopwatch.compare(calls, known_s=dict.fromkeys(calls, ready.run_s), **how)


def _steps(direction: str, arrays: Buffers, plan: Plan, residency: str) -> dict[str, Call]:
    calls = cell_roof.with_noise(cell_roof.streams(direction, arrays), residency)
    for name in row_streams.STEPS[direction]:
        calls[name] = _step(direction, name, arrays, plan)
        calls[name + NOT_ASKED] = _step(direction, name, arrays, plan._replace(ahead=0, spread=0, pages=1))
    return calls


def _step(direction: str, name: str, arrays: Buffers, plan: Plan) -> Call:
    x, dy, gamma, beta, out = arrays.x, arrays.dy, arrays.gamma, arrays.beta, arrays.out
    if direction == "forward":
        return row_streams.forward(name, x, gamma, beta, out, plan)
    return row_streams.backward(name, dy, x, gamma, out, plan)


def _rows(direction: str, size: int, samples: pd.DataFrame, ahead: int) -> list[dict[str, Any]]:
    roof, noise = cell_roof.fastest(samples, direction), cell_roof.noise(samples)
    gb_per_s = size / stopwatch.summary(samples, roof).median_s / 1e9
    steps = row_streams.STEPS[direction]
    timed = {name: stopwatch.fastest(samples, [name, name + NOT_ASKED]) for name in steps}
    timed |= {PASS: PASS}
    rows = []
    for before, (step, name) in zip([roof, *timed.values()], timed.items(), strict=False):
        added = stopwatch.ratio(samples, name, before)
        row = {"step": step, "roof_operation": roof, "roof_gb_per_s": gb_per_s}
        row["ahead"] = 0 if name.endswith(NOT_ASKED) else ahead
        row |= times(samples, name) | stopwatch.ratio(samples, roof, name).columns("roof_fraction")
        rows.append(row | added.columns("added") | {"noise": noise})
    return rows

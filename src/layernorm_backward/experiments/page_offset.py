"""What the place of the result within its page costs: numba_fused and its roof, the result at several places.

x and dy begin 16 bytes into a page, as NumPy's large arrays do, and the result `place` bytes into one. A load
may wait for an earlier store at the same offset in another page (4K aliasing). ratio is the time of the pass
over that with the result half a page into one, the median of pairs; above 1 the place costs time. roof_ratio
is the same ratio for the stream with the reads and writes of the pass, a copy or a triad (roof_operation),
with the kind of store that the plan of numba_fused chooses (stream). The pass is checked at each place first;
error_u_max is the largest of its errors in some rows.
"""

from collections.abc import Iterable
from typing import Annotated, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field
from tqdm import tqdm

from layernorm_backward import stopwatch
from layernorm_backward.aligned import PAGE, aligned_empty
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.experiments import _cells
from layernorm_backward.experiments import _variant_checks as check
from layernorm_backward.experiments._arguments import AtLeast, Count, Listed, Positive, Seconds, Seed, Several
from layernorm_backward.experiments._cells import Cell, Sweep
from layernorm_backward.kernels import numba_plan
from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.records.tabulate import table
from layernorm_backward.stopwatch import Call
from layernorm_backward.timing import cell_roof, difference, sizing
from layernorm_backward.timing.blocks import fill
from layernorm_backward.timing.pool import ONE_RESULT, Buffers, Pool
from layernorm_backward.timing.timed import labelled, seed_of, times, together, too_many

INPUTS = 16  # bytes into a page at which x and dy begin
HALF = PAGE // 2  # what the others are held against; timed a second time, for the noise
AGAIN = "_again"

Place = Annotated[int, Field(ge=0, lt=PAGE, multiple_of=LINE)]


def run(
    *,
    places: Several[Place],
    sweeps: Listed[Sweep],
    repeats: Count,
    at_least: AtLeast,
    budget_s: Seconds,
    error_rows: Count,
    error_limit_u: Positive,
    seed: Seed,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row per cell and place, HALF among them; `budget_s` is for the repetitions of one cell."""
    how = {"repeats": repeats, "at_least": at_least, "budget_s": budget_s}
    sizes = {cell: _cells.sized(cell) for cell in _cells.cells(sweeps)}  # before memory is taken
    most = max(sizing.held(1, size.rows, cell.hidden, cell.dtype) for cell, size in sizes.items())
    inputs = tuple(_written(most, INPUTS) for _ in range(2))
    pool, room = Pool(most, seed, ONE_RESULT, inputs), _written(most + PAGE, 0)
    rows, samples = [], []
    for cell, size in tqdm(sizes.items(), desc="page_offset", mininterval=1):
        arrays = pool.buffers((size.rows, cell.hidden), cell.dtype)
        at = {place: _moved(arrays, room, place) for place in sorted({*places, HALF})}
        about, ordered = _cells.about(cell, size), how | {"seed": seed_of(seed, cell)}
        found, timed = _measured(cell, about["residency"], at, error_rows, error_limit_u, ordered)
        rows += [about | {"place": place} | found[place] for place in at]
        samples += timed
    return difference.judged(table(rows, "page_offset"), "ratio"), together(samples)


def _written(size: int, behind: int) -> NDArray[np.uint8]:
    """Memory that begins `behind` bytes into a page."""
    memory = aligned_empty(size, np.uint8, PAGE, behind)
    fill(memory, 0)
    return memory


def _moved(arrays: Buffers, room: NDArray[np.uint8], place: int) -> Buffers:
    """The arrays, with a result that begins `place` bytes into a page."""
    result = arrays.out
    there = room[place : place + result.nbytes].view(result.dtype).reshape(result.shape)
    return arrays._replace(out=there, y=there)


def _measured(
    cell: Cell,
    residency: str,
    at: dict[int, Buffers],
    error_rows: int,
    limit_u: float,
    how: dict[str, Any],
) -> tuple[dict[int, dict[str, Any]], list[pd.DataFrame]]:
    """The columns measured, by place, and the samples; calls from memory are not tried before the first."""
    if too_many(cell.threads):
        return _refused(at, too_many(cell.threads)), []
    plan = numba_plan.choose(*at[HALF].x.shape, dtype_of(cell.dtype), cell.direction, cell.threads)
    with stopwatch.threads(cell.threads):
        cell_roof.load(cell.direction, at[HALF])
        calls, errors = {}, {}
        for place, arrays in at.items():
            found, run_s, errors[place] = check.ran(cell.direction, arrays, {"pass": plan}, error_rows)
            if reason := check.wrong(errors[place], limit_u):
                return _refused(at, reason), []
            calls[_pass(place)] = found["pass"]
            operation, calls[_roof(place)] = _stream(cell, arrays, plan.stream)
        calls[_pass(HALF) + AGAIN] = calls[_pass(HALF)]
        known_s = dict.fromkeys(calls, run_s) if residency == "memory" else {}
        samples = stopwatch.compare(calls, known_s=known_s, **how)
    about = {"stream": plan.stream, "roof_operation": operation}
    about |= {"noise": difference.noise(stopwatch.ratio(samples, _pass(HALF) + AGAIN, _pass(HALF)))}
    columns = {place: about | {"error_u_max": errors[place]} | _columns(samples, place) for place in at}
    return columns, [labelled(samples, **_cells.keys(cell))]


def _refused(places: Iterable[int], reason: str) -> dict[int, dict[str, Any]]:
    return {place: {"reason": reason} for place in places}


def _stream(cell: Cell, arrays: Buffers, stream: bool) -> tuple[str, Call]:
    """The name of a cell's stream: with non-temporal stores if `stream` is set and they can run here."""
    streams = list(cell_roof.streams(cell.direction, arrays).items())
    return streams[-1 if stream else 0]


def _columns(samples: pd.DataFrame, place: int) -> dict[str, Any]:
    found = times(samples, _pass(place))
    for column, name in (("ratio", _pass), ("roof_ratio", _roof)):
        found |= stopwatch.ratio(samples, name(place), name(HALF)).columns(column)
    return found


def _pass(place: int) -> str:
    return f"pass_{place}"


def _roof(place: int) -> str:
    return f"roof_{place}"

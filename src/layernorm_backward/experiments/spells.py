"""What spells of the machine do to kernels and to their roof: both beside two loops that touch no memory.

A spell is a period in which the machine is slower, as when the host runs another tenant on the same core.
`update` stays in the first-level cache, `multiply_add` in registers (`roofs`). Each does the same work in
every repetition and cell, so its slowdown shows which part of the core it gets: another hardware thread of
the core, which is not visible from here, competes for issue slots, loads and stores; a lower clock shows in
both. Kernels, roof and loops run interleaved, in rounds over all cells, so that a cell can meet several
spells; results are checked in the first. A sample of `update` is short, and the state of the core may change
between it and the kernel: bands are blurred.

The repetitions of a cell in which no call was in the run queue, or all where these are too few (`stopwatch`),
are grouped into bands by the slowdown of `update`: in band 1 the core was free, band 0 holds all. A slowdown
is a time over its least: in the cell for kernel and roof, in all cells with the same number of threads for
the loops; a row holds its median over the repetitions of the band. The least is the 2 % quantile. A
correlation is Spearman's, over band 0, with the time of `update`.
"""

from collections import defaultdict
from itertools import product
from typing import Annotated, Any

import pandas as pd
from pydantic import Field
from tqdm import tqdm
from typing_extensions import TypedDict

from layernorm_backward import roofs, stopwatch
from layernorm_backward.directions import Direction
from layernorm_backward.dtypes import DtypeName
from layernorm_backward.experiments import _bands, _cells
from layernorm_backward.experiments._arguments import (
    AtLeast,
    Count,
    Names,
    Positive,
    Rising,
    Seconds,
    Seed,
    Several,
    Threads,
    WorkingSet,
)
from layernorm_backward.experiments._cells import Cell, Sweep
from layernorm_backward.experiments._rounds import RoundBudget, joined, known_s, round_budgets
from layernorm_backward.kernels import KERNELS
from layernorm_backward.records.tabulate import table
from layernorm_backward.timing import cell_roof
from layernorm_backward.timing.pool import Buffers
from layernorm_backward.timing.prepared import prepare, renewed
from layernorm_backward.timing.sizing import Sized
from layernorm_backward.timing.timed import labelled, seed_of, together, too_many

_Slowdown = Annotated[float, Field(gt=1, allow_inf_nan=False)]


class LoopRounds(TypedDict):
    """The number of sweeps of each loop over its numbers in one call."""

    update: Count
    multiply_add: Count


LOOPS = tuple(LoopRounds.__annotations__)


def run(
    *,
    kernels: Names,
    directions: Several[Direction],
    dtypes: Several[DtypeName],
    hidden: Several[Count],
    working_set: WorkingSet,
    threads: Threads,
    loop_rounds: LoopRounds,
    bands: Rising[_Slowdown],
    rounds: Count,
    repeats: Count,
    at_least: AtLeast,
    budget_s: Seconds,
    error_rows: Count,
    error_limit_u: Positive,
    seed: Seed,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row per kernel, cell and band; `repeats`, `at_least` and `budget_s` are for all rounds of a cell.

    bands: the slowdowns between two bands.
    """
    sweep = Sweep(
        working_sets=[working_set], dtypes=dtypes, hidden=hidden, directions=directions, threads=threads
    )
    sizes = {cell: _cells.sized(cell) for cell in _cells.cells([sweep])}  # before memory is taken
    pool = _cells.pool(sizes, seed)
    chosen = {name: KERNELS[name] for name in kernels}
    samples, refused = defaultdict(list), {}
    planned = list(product(round_budgets(rounds, repeats, at_least, budget_s, seed), sizes))
    for budget, cell in tqdm(planned, desc="spells", mininterval=1):
        if too_many(cell.threads):
            refused[cell] = dict.fromkeys(kernels, too_many(cell.threads))
            continue
        arrays = pool.buffers((sizes[cell].rows, cell.hidden), cell.dtype)
        if cell in refused:
            right = {name: one for name, one in chosen.items() if name not in refused[cell]}
            passes = {name: renewed(one, cell.direction, arrays) for name, one in right.items()}
        else:
            ready, refused[cell] = prepare(chosen, cell.direction, arrays, error_rows, error_limit_u)
            passes = {name: one.call for name, one in ready.items()}
        if passes:
            samples[cell].append(_samples(cell, arrays, passes, samples[cell], loop_rounds, budget))
    timed = {cell: joined(parts) for cell, parts in samples.items()}
    abouts = {cell: _about(cell, size) for cell, size in sizes.items()}
    rows = _rows(abouts, timed, refused, kernels, bands)
    keyed = [labelled(found, **_cells.keys(cell)) for cell, found in timed.items()]
    return table(rows, "spells"), together(keyed)


def _about(cell: Cell, size: Sized) -> dict[str, Any]:
    """The columns that describe a cell, without the working set, which is the same for all."""
    about = _cells.about(cell, size)
    return {name: about[name] for name in about if name != "working_set"}


def _samples(
    cell: Cell,
    arrays: Buffers,
    passes: dict[str, stopwatch.Call],
    before: list[pd.DataFrame],
    loop_rounds: LoopRounds,
    budget: RoundBudget,
) -> pd.DataFrame:
    """Samples of one cell in one round; `before`: those of earlier rounds."""
    budget = budget._replace(seed=seed_of(budget.seed, cell))
    with stopwatch.threads(cell.threads):
        calls = cell_roof.streams(cell.direction, arrays) | _loops(loop_rounds) | passes
        return stopwatch.compare(calls, known_s=known_s(before), **budget._asdict())


def _loops(rounds: LoopRounds) -> dict[str, stopwatch.Call]:
    """The two loops on the current number of threads, in float32."""
    made = {"update": roofs.updates, "multiply_add": roofs.multiply_adds}
    return {name: made[name]("float32", rounds[name]) for name in LOOPS}


def _rows(
    abouts: dict[Cell, dict[str, Any]],
    timed: dict[Cell, pd.DataFrame],
    refused: dict[Cell, dict[str, str]],
    kernels: list[str],
    bands: list[float],
) -> list[dict[str, Any]]:
    rows = []
    for (cell, about), name in product(abouts.items(), kernels):
        about = {"kernel": name} | about
        if name in refused[cell]:
            rows.append(about | {"band": 0, "reason": refused[cell][name]})
        else:
            fastest = _bands.least(cell.threads, timed, LOOPS)
            found = _bands.rows(cell, name, timed[cell], fastest, bands)
            rows += [about | row for row in found]
    return rows

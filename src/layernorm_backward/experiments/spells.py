"""What spells of the machine do to a kernel and to its roof: both beside two loops that touch no memory.

`update` stays in the first-level cache, `multiply_add` in registers (`roofs`). Each does the same work in
every repetition and cell, so what it takes above its least says how much of the core it has: whoever shares a
core, and is not seen from here, takes turns in issuing instructions, loads and stores; a lower clock shows in
both. Kernel, roof and loops run interleaved, in rounds over all cells, so that a cell meets several spells.

The repetitions of a cell are cut into parts of equal size by the time of `update`: part 1 holds those in
which the core was freest, part 0 all. A slowdown is the median, over a part, of a time over its least: in the
cell for the kernel and the roof, in all cells with the same number of threads for the loops. The least is the
2 % quantile. A correlation is Spearman's, over the repetitions of a cell, with the time of `update`.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from tqdm import tqdm

from layernorm_backward import roofs, stopwatch
from layernorm_backward.dtypes import DtypeName, dtype_of
from layernorm_backward.experiments import _columns, _roof, _shapes
from layernorm_backward.experiments._prepared import Pool, prepare
from layernorm_backward.experiments._rounds import joined, shares
from layernorm_backward.experiments._timed import ThreadCount, labelled, thread_counts, together, too_many
from layernorm_backward.kernels import KERNELS
from layernorm_backward.tabulate import table

LEAST = 0.02  # quantile of times that stands for the least of them
LOOPS = ("update", "multiply_add")


class Cell(NamedTuple):
    """What is timed together."""

    direction: Literal["forward", "backward"]
    dtype: DtypeName
    hidden: int
    threads: int


def run(
    *,
    kernel: str,
    directions: list[Literal["forward", "backward"]],
    dtypes: list[DtypeName],
    hidden: list[int],
    working_set: _shapes.WorkingSet,
    threads: list[ThreadCount],
    loop_rounds: dict[Literal["update", "multiply_add"], int],
    parts: int,
    rounds: int,
    repeats: int,
    at_least: int,
    budget_s: float,
    error_rows: int,
    error_limit_u: float,
    seed: int,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row a cell and part; `repeats`, `at_least` and `budget_s` are for all rounds of a cell.

    loop_rounds: how often a loop goes over its numbers in one call.
    """
    if not 2 <= parts <= at_least // 2:
        raise ValueError(f"parts is {parts}; allowed: 2 to {at_least // 2}, half of at_least")
    if set(loop_rounds) != set(LOOPS):
        raise ValueError(f"loop_rounds names {sorted(loop_rounds)}; allowed: {', '.join(LOOPS)}, both")
    cells = [Cell(*keys) for keys in product(directions, dtypes, hidden, thread_counts(threads))]
    sizes = {cell: _shapes.sized(cell.hidden, cell.dtype, cell.direction, working_set) for cell in cells}
    about = {cell: {"kernel": kernel} | _about(cell, size) for cell, size in sizes.items()}
    pool = Pool(max(_array_bytes(cell, size.rows) for cell, size in sizes.items()), seed, arrays=3)
    found, refused = defaultdict(list), {cell: too_many(cell.threads) for cell in cells}
    planned = list(product(shares(rounds, repeats, at_least, budget_s, seed), cells))
    for share, cell in tqdm(planned, desc="spells", mininterval=1):
        if refused[cell]:
            continue
        arrays = pool.buffers((sizes[cell].rows, cell.hidden), cell.dtype)
        ready, wrong = prepare({kernel: KERNELS[kernel]}, cell.direction, arrays, error_rows, error_limit_u)
        refused[cell] = wrong.get(kernel, "")
        if ready:
            with stopwatch.threads(cell.threads):
                calls = _roof.streams(cell.direction, arrays) | _loops(loop_rounds)
                calls[kernel] = ready[kernel].call
                found[cell].append(stopwatch.compare(calls, warmup=1, **share._asdict()))
    timed = {cell: joined(samples) for cell, samples in found.items() if not refused[cell]}
    rows = [about[cell] | {"part": 0, "reason": reason} for cell, reason in refused.items() if reason]
    for cell, samples in timed.items():
        rows += [
            about[cell] | row
            for row in _rows(cell, kernel, samples, _least(cell.threads, timed), parts, seed)
        ]
    keyed = [labelled(samples, **cell._asdict()) for cell, samples in timed.items()]
    return table(rows, "spells"), together(keyed)


def _about(cell: Cell, size: _shapes.Sized) -> dict[str, Any]:
    """The columns that say what a row is about."""
    touched = _shapes.touched(cell.direction, size.rows, cell.hidden, cell.dtype)
    sizes = {"rows": size.rows, "bytes": touched, "residency": _shapes.residency(touched)}
    return cell._asdict() | sizes | {"note": size.note}


def _array_bytes(cell: Cell, rows: int) -> int:
    return rows * cell.hidden * dtype_of(cell.dtype).itemsize


def _loops(rounds: dict[str, int]) -> dict[str, stopwatch.Call]:
    """The two loops on the threads that are set, in float32."""
    made = {"update": roofs.updates, "multiply_add": roofs.multiply_adds}
    return {name: made[name]("float32", rounds[name]) for name in LOOPS}


def _least(threads: int, timed: dict[Cell, pd.DataFrame]) -> dict[str, float]:
    """What each loop takes at least on so many threads."""
    alike = pd.concat(samples for cell, samples in timed.items() if cell.threads == threads)
    return {name: alike.loc[alike["name"] == name, "seconds"].quantile(LEAST) for name in LOOPS}


def _rows(
    cell: Cell, kernel: str, samples: pd.DataFrame, least: dict[str, float], parts: int, seed: int
) -> Iterator[dict[str, Any]]:
    """The rows of one cell: all its repetitions, then each part of them."""
    roof = _roof.fastest(samples, cell.direction)
    names = {"kernel": kernel, "roof": roof} | {name: name for name in LOOPS}
    seconds = samples.pivot(index="repeat", columns="name", values="seconds")[[*names.values()]].dropna()
    slower = seconds / pd.Series(seconds.quantile(LEAST).to_dict() | least)
    order = slower["update"].sort_values(kind="stable").index
    correlations = {
        f"{what}_correlation": stats.spearmanr(slower[name], slower["update"]).statistic
        for what, name in names.items()
        if name != "update"
    }
    for part, repeats in enumerate([order, *np.array_split(order, parts)]):
        its = samples[samples["repeat"].isin(repeats)]
        row = {"part": part, "repeats": len(repeats), "roof_operation": roof}
        row |= _columns.ratio("roof_fraction", stopwatch.ratio(its, roof, kernel, seed))
        row |= {f"{what}_slowdown": slower.loc[repeats, name].median() for what, name in names.items()}
        yield row | (correlations if part == 0 else {})

"""What spells of the machine do to kernels and to their roof: both beside two loops that touch no memory.

`update` stays in the first-level cache, `multiply_add` in registers (`roofs`). Each does the same work in
every repetition and cell, so what it takes above its least says how much of the core it has: whoever shares a
core, and is not seen from here, takes turns in issuing instructions, loads and stores; a lower clock shows in
both. Kernels, roof and loops run interleaved, in rounds over all cells, so that a cell can meet several
spells. A sample of `update` is short, and the core may change between it and the kernel: bands are blurred.

The repetitions of a cell in which no call stood in the run queue (`stopwatch`) are sorted into bands by the
slowdown of `update`: in band 1 the core was free, band 0 holds all. A slowdown is a time over its least: in
the cell for kernel and roof, in all cells with the same number of threads for the loops; a row holds its
median over the repetitions of the band. The least is the 2 % quantile. A correlation is Spearman's, over
band 0, with the time of `update`.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise, product
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field
from scipy import stats
from tqdm import tqdm
from typing_extensions import TypedDict

from layernorm_backward import roofs, stopwatch
from layernorm_backward.dtypes import DtypeName, dtype_of
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
from layernorm_backward.experiments._rounds import Share, complete, joined, shares
from layernorm_backward.kernels import KERNELS
from layernorm_backward.tabulate import table
from layernorm_backward.timing import cell_roof, sizing
from layernorm_backward.timing.prepared import Buffers, Pool, Prepared, prepare
from layernorm_backward.timing.timed import labelled, thread_counts, together, too_many

LEAST = 0.02  # quantile of times that stands for the least of them
ARRAYS = 3  # of x's size that are allocated: x, dy, and the result
_Slowdown = Annotated[float, Field(gt=1, allow_inf_nan=False)]


class LoopRounds(TypedDict):
    """How often each loop goes over its numbers in one call."""

    update: Count
    multiply_add: Count


LOOPS = tuple(LoopRounds.__annotations__)


class Cell(NamedTuple):
    """What is timed together."""

    direction: Literal["forward", "backward"]
    dtype: DtypeName
    hidden: int
    threads: int


def run(
    *,
    kernels: Names,
    directions: Several[Literal["forward", "backward"]],
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
    """One row a kernel, cell and band; `repeats`, `at_least` and `budget_s` are for all rounds of a cell.

    bands: the slowdowns between two bands.
    """
    chosen = {name: KERNELS[name] for name in kernels}
    named = product(directions, dtypes, hidden, thread_counts(threads))
    sizes = {
        cell: sizing.sized(cell.hidden, cell.dtype, cell.direction, working_set, arrays=ARRAYS)
        for cell in map(Cell._make, named)
    }
    pool = Pool(max(_array_bytes(cell, size.rows) for cell, size in sizes.items()), seed, ARRAYS)
    samples, refused = defaultdict(list), defaultdict(dict)
    planned = list(product(shares(rounds, repeats, at_least, budget_s, seed), sizes))
    for share, cell in tqdm(planned, desc="spells", mininterval=1):
        if too_many(cell.threads):
            refused[cell] = dict.fromkeys(kernels, too_many(cell.threads))
            continue
        arrays = pool.buffers((sizes[cell].rows, cell.hidden), cell.dtype)
        ready, wrong = prepare(chosen, cell.direction, arrays, error_rows, error_limit_u)
        refused[cell] |= wrong
        if ready:
            samples[cell].append(_samples(cell, arrays, ready, loop_rounds, share))
    timed = {cell: joined(parts) for cell, parts in samples.items()}
    return _tables(sizes, timed, refused, kernels, bands, seed)


def _samples(
    cell: Cell, arrays: Buffers, ready: dict[str, Prepared], loop_rounds: dict[str, int], share: Share
) -> pd.DataFrame:
    """Samples of one cell in one round."""
    with stopwatch.threads(cell.threads):
        calls = cell_roof.streams(cell.direction, arrays) | _loops(loop_rounds)
        calls |= {name: one.call for name, one in ready.items()}
        return stopwatch.compare(calls, warmup=1, **share._asdict())


def _tables(
    sizes: dict[Cell, sizing.Sized],
    timed: dict[Cell, pd.DataFrame],
    refused: dict[Cell, dict[str, str]],
    kernels: list[str],
    bands: list[float],
    seed: int,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    rows = []
    for (cell, size), name in product(sizes.items(), kernels):
        about = {"kernel": name} | _about(cell, size)
        if name in refused[cell]:
            rows.append(about | {"band": 0, "reason": refused[cell][name]})
        else:
            least = _least(cell.threads, timed)
            rows += [about | row for row in _rows(cell, name, timed[cell], least, bands, seed)]
    keyed = [labelled(samples, **cell._asdict()) for cell, samples in timed.items()]
    return table(rows, "spells"), together(keyed)


def _about(cell: Cell, size: sizing.Sized) -> dict[str, Any]:
    """The columns that say what a row is about."""
    touched = sizing.touched(cell.direction, size.rows, cell.hidden, cell.dtype)
    sizes = {"rows": size.rows, "bytes": touched, "residency": sizing.residency(touched)}
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
    cell: Cell,
    kernel: str,
    samples: pd.DataFrame,
    least: dict[str, float],
    bands: list[float],
    seed: int,
) -> Iterator[dict[str, Any]]:
    """The rows of one kernel and cell: all repetitions, then those of each band."""
    roof = cell_roof.fastest(samples, cell.direction)
    names = {"kernel": kernel, "roof": roof} | {name: name for name in LOOPS}
    slower = _slowdowns(samples, names, least)
    yield _row(0, samples, slower, names, seed) | _correlations(slower)
    for band, (low, high) in enumerate(pairwise([0.0, *bands, np.inf]), 1):
        within = slower[(slower["update"] >= low) & (slower["update"] < high)]
        yield {"update_from": low, "update_below": high} | _row(band, samples, within, names, seed)


def _slowdowns(samples: pd.DataFrame, names: dict[str, str], least: dict[str, float]) -> pd.DataFrame:
    """Times over their least, a row each repetition that holds all calls and that counts (`stopwatch`)."""
    found = complete(samples, names.values())
    seconds = pd.DataFrame({what: found[name] for what, name in names.items()})
    return seconds / pd.Series(seconds.quantile(LEAST).to_dict() | least)


def _correlations(slower: pd.DataFrame) -> dict[str, float]:
    if len(slower) < stopwatch.FEWEST:
        return {}
    others = [what for what in slower if what != "update"]
    return {f"{it}_correlation": stats.spearmanr(slower[it], slower["update"]).statistic for it in others}


def _row(
    band: int, samples: pd.DataFrame, slower: pd.DataFrame, names: dict[str, str], seed: int
) -> dict[str, Any]:
    row = {"band": band, "repeats": len(slower), "roof_operation": names["roof"]}
    if len(slower) < stopwatch.FEWEST:
        return row | {"reason": f"{len(slower)} repetitions, fewer than {stopwatch.FEWEST}"}
    its = samples[samples["repeat"].isin(slower.index)]
    fraction = stopwatch.ratio(its, names["roof"], names["kernel"], seed)
    slowdowns = {f"{what}_slowdown": slower[what].median() for what in names}
    return row | fraction.columns("roof_fraction") | slowdowns

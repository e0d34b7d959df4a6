"""What spells of the machine do to a kernel and to its roof: both beside two loops that touch no memory.

`update` stays in the first-level cache, `multiply_add` in registers (`roofs`). Each does the same work in
every repetition and cell, so what it takes above its least says how much of the core it has: whoever shares a
core, and is not seen from here, takes turns in issuing instructions, loads and stores; a lower clock shows in
both. Kernel, roof and loops run interleaved, in rounds over all cells, so that a cell meets several spells.

The repetitions of a cell are sorted into bands by the slowdown of `update`: in band 1 the core was free, band
0 holds all. A slowdown is a time over its least: in the cell for the kernel and the roof, in all cells with
the same number of threads for the loops; a row holds its median over the repetitions of the band. The least
is the 2 % quantile. A correlation is Spearman's, over all repetitions of a cell, with the time of `update`.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise, product
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
    bands: list[float],
    rounds: int,
    repeats: int,
    at_least: int,
    budget_s: float,
    error_rows: int,
    error_limit_u: float,
    seed: int,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row a cell and band; `repeats`, `at_least` and `budget_s` are for all rounds of a cell.

    loop_rounds: how often a loop goes over its numbers in one call. bands: the slowdowns between two bands.
    """
    if not bands or sorted({1.0, *bands}) != [1.0, *bands]:
        raise ValueError(f"bands is {bands}; allowed: slowdowns above 1, each above the one before")
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
    rows = [about[cell] | {"band": 0, "reason": reason} for cell, reason in refused.items() if reason]
    for cell, samples in timed.items():
        names = _names(kernel, cell, samples)
        slower = _slowdowns(samples, names, _least(cell.threads, timed))
        rows += [about[cell] | row for row in _rows(samples, slower, names, bands, seed)]
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


def _names(kernel: str, cell: Cell, samples: pd.DataFrame) -> dict[str, str]:
    """The calls that a row speaks of, by what they are."""
    roof = _roof.fastest(samples, cell.direction)
    return {"kernel": kernel, "roof": roof} | {name: name for name in LOOPS}


def _slowdowns(samples: pd.DataFrame, names: dict[str, str], least: dict[str, float]) -> pd.DataFrame:
    """Times over their least, a row each repetition that holds all calls."""
    seconds = samples.pivot(index="repeat", columns="name", values="seconds")
    seconds = pd.DataFrame({what: seconds[name] for what, name in names.items()}).dropna()
    return seconds / pd.Series(seconds.quantile(LEAST).to_dict() | least)


def _rows(
    samples: pd.DataFrame, slower: pd.DataFrame, names: dict[str, str], bands: list[float], seed: int
) -> Iterator[dict[str, Any]]:
    """The rows of one cell: all its repetitions, then those of each band."""
    correlations = {
        f"{what}_correlation": stats.spearmanr(slower[what], slower["update"]).statistic
        for what in names
        if what != "update"
    }
    edges = [0.0, *bands, np.inf]
    yield _row(0, samples, slower, names, seed) | correlations
    for band, (low, high) in enumerate(pairwise(edges), 1):
        within = slower[(slower["update"] >= low) & (slower["update"] < high)]
        yield {"update_from": low, "update_below": high} | _row(band, samples, within, names, seed)


def _row(
    band: int, samples: pd.DataFrame, slower: pd.DataFrame, names: dict[str, str], seed: int
) -> dict[str, Any]:
    row = {"band": band, "repeats": len(slower), "roof_operation": names["roof"]}
    if len(slower) < stopwatch.FEWEST:
        return row | {"reason": f"{len(slower)} repetitions, fewer than {stopwatch.FEWEST}"}
    its = samples[samples["repeat"].isin(slower.index)]
    fraction = stopwatch.ratio(its, names["roof"], names["kernel"], seed)
    slowdowns = {f"{what}_slowdown": slower[what].median() for what in names}
    return row | _columns.ratio("roof_fraction", fraction) | slowdowns

"""The time of every kernel beside the roof and beside the NumPy baselines, in one paired run.

A cell is a direction (forward, backward, or both in turn), a shape, a dtype of x and one of gamma, and a
thread count. Its kernels, copy or triad on the same arrays, and the baselines run interleaved. NumPy kernels
use one thread: they have rows in the cells with one thread only; kernels in `threaded` have rows in all
cells, with the baselines timed beside them. In cells with more threads these are timed in a comparison of
their own, in the first round, since the calls after a baseline, for which one core has worked alone, are
slower. A row is
compared with the roof on its own number of threads, with ordinary or non-temporal stores, whichever was
faster; pages_fraction is relative to the stream that reads several pages in turn, which exceeds the roof
where lines come from memory.

Each of several rounds times all cells one after the other (`_rounds`); a stream that cannot be the roof runs
in the first only (`cell_roof.contenders`). Results are checked in the first round: the others have the same
numbers in the same memory. A kernel that raises later is left out of its cell, and the others are timed anew
in that round.

Results go to preallocated arrays that were written before. Other allocations of a kernel (NumPy's
temporaries, saved tensors) are part of its time.

bytes is the working set (`sizing`). residency is "memory" where it is at least four times the last-level
cache, "cache" where it fits there, else "partly". noise is the cell's, and differs says whether the kernel's
time differs from its roof's, by the rule of `difference`.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from itertools import chain, product
from math import prod
from typing import Annotated, Any, NamedTuple

import pandas as pd
from tqdm import tqdm

from layernorm_backward import stopwatch
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.experiments import _columns
from layernorm_backward.experiments._arguments import (
    AtLeast,
    Count,
    Distinct,
    Named,
    Names,
    Positive,
    Seconds,
    Seed,
    each_of,
    sets_of,
)
from layernorm_backward.experiments._rounds import RoundBudget, consecutive, joined, known_s, round_budgets
from layernorm_backward.experiments._sets import Cell, Counts, Set, cells
from layernorm_backward.kernels import KERNELS, Kernel
from layernorm_backward.records.tabulate import table
from layernorm_backward.timing import cell_roof, difference, sizing
from layernorm_backward.timing.pool import Buffers, Pool
from layernorm_backward.timing.prepared import Prepared, prepare, renewed, rows_looked_at
from layernorm_backward.timing.timed import seed_of, together, too_many
from layernorm_backward.untrusted.checked_kernel import BrokenError

BASELINES = ("compact", "overcached", "numpy_blocked")
LITTLE = 8  # a call that holds at most this part of x is kept for later rounds, without another forward pass
BESIDE = " beside baselines"  # behind a kernel's name, in the samples where it is timed with these alone
_FACTS = ("error_u_max", "saved_bytes", "saved_extra_bytes", "saved_arrays", "saved_scalars")


def run(
    *,
    kernels: Names,
    threaded: Annotated[Distinct[str], each_of("kernels")],
    sets: Annotated[Named[Set], sets_of("kernels")],
    rounds: Count,
    repeats: Count,
    at_least: AtLeast,
    budget_s: Seconds,
    error_elements: Count,
    error_limit_u: Positive,
    seed: Seed,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row per kernel, cell and thread count; `repeats`, `at_least` and `budget_s` are for all its rounds.

    Errors are looked at in rows of `error_elements` elements in all, and in at least four rows.
    """
    chosen = {name: KERNELS[name] for name in kernels}
    wanted = cells(sets, sizing.memory_limit())
    pool = Pool(max(prod(cell.shape) * dtype_of(cell.dtype).itemsize for cell in wanted), seed)
    found: dict[Cell, _Found] = {}
    planned = list(product(round_budgets(rounds, repeats, at_least, budget_s, seed), wanted.items()))
    beside = RoundBudget(repeats, at_least, budget_s, seed)
    for budget, (cell, counts) in tqdm(planned, desc="timing_cpu", mininterval=1):
        arrays = pool.buffers(cell.shape, cell.dtype, cell.gamma_dtype)
        if cell in found:
            calls = _renewed(_with_rows(chosen, counts, threaded), found[cell], cell, arrays)
        else:
            named = {name: chosen[name] for name in kernels if any(name in it for it in counts.values())}
            looked_at = rows_looked_at(error_elements, cell.shape[-1])
            ready, refused = prepare(named, cell.direction, arrays, looked_at, error_limit_u)
            found[cell] = _found(ready, refused, arrays.x.nbytes)
            calls = {name: one.call for name, one in ready.items()}
            del ready
        for count, names in counts.items():
            _time(calls, names, found[cell], cell, count, arrays, (budget, beside), threaded)
        del calls
    return _tables(wanted, found, threaded)


class _Found(NamedTuple):
    """Of one cell: columns of its kernels but for times, calls that hold little memory, and seconds of a run;
    why others are not timed; samples by threads."""

    facts: dict[str, dict[str, Any]]
    kept: dict[str, stopwatch.Call]
    run_s: dict[str, float]
    refused: dict[str, str]
    samples: dict[int, list[pd.DataFrame]]

    def refuse(self, error: BrokenError) -> None:
        """Discard all times of a kernel that raises after its results were checked."""
        del self.facts[error.kernel]
        self.refused[error.kernel] = str(error)


def _renewed(
    chosen: Mapping[str, Kernel], found: _Found, cell: Cell, arrays: Buffers
) -> dict[str, stopwatch.Call]:
    """The calls of a cell's kernels in a later round, without those whose forward pass now raises."""
    calls = {}
    for name in [it for it in found.facts if it in chosen]:
        try:
            calls[name] = found.kept.get(name) or renewed(chosen[name], cell.direction, arrays)
        except BrokenError as error:
            found.refuse(error)
    return calls


def _tables(
    wanted: Mapping[Cell, Counts], found: Mapping[Cell, _Found], threaded: list[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    rows, samples = [], []
    for cell, counts in wanted.items():
        for count, names in counts.items():
            keys, own = _columns.of_cell(cell, count), [it for it in names if _has_row(it, count, threaded)]
            rows += _left_out(own, found[cell].refused, keys)
            if parts := found[cell].samples[count]:
                samples.append(_columns.with_keys(joined(parts), keys))
                rows += _rows(own, found[cell], samples[-1], keys)
    return difference.judged(table(rows, "timing_cpu"), "roof_fraction"), together(samples)


def _with_rows(chosen: Mapping[str, Kernel], counts: Counts, threaded: list[str]) -> dict[str, Kernel]:
    """The kernels with a row of a cell for some number of threads: the others run in the first round only."""
    names = {it for count, names in counts.items() for it in names if _has_row(it, count, threaded)}
    return {name: kernel for name, kernel in chosen.items() if name in names}


def _has_row(name: str, count: int, threaded: list[str]) -> bool:
    return count == 1 or name in threaded


def _timed(calls: Mapping[str, stopwatch.Call], count: int, threaded: list[str]) -> dict[str, stopwatch.Call]:
    """The calls to time: kernels that have a row and the baselines beside them; none without a row."""
    rows = [name for name in calls if _has_row(name, count, threaded)]
    if too_many(count) or not rows:
        return {}
    return {name: call for name, call in calls.items() if name in rows or name in BASELINES}


def _found(ready: Mapping[str, Prepared], refused: dict[str, str], size: int) -> _Found:
    """`size`: bytes of x. A backward call holds what its forward pass saved."""
    facts = {name: {column: getattr(one, column) for column in _FACTS} for name, one in ready.items()}
    kept = {name: one.call for name, one in ready.items() if one.saved_extra_bytes <= size / LITTLE}
    return _Found(facts, kept, {name: one.run_s for name, one in ready.items()}, refused, defaultdict(list))


def _left_out(names: list[str], refused: Mapping[str, str], keys: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of kernels that were not timed."""
    reasons = {name: too_many(keys["threads"]) or refused.get(name, "") for name in names}
    return [keys | {"kernel": name, "reason": reason} for name, reason in reasons.items() if reason]


def _time(
    calls: dict[str, stopwatch.Call],
    names: Collection[str],
    found: _Found,
    cell: Cell,
    count: int,
    arrays: Buffers,
    budgets: tuple[RoundBudget, RoundBudget],
    threaded: list[str],
) -> None:
    """Add the samples of one round; where a kernel raises, it is refused, and the others are timed anew."""
    while timed := _timed({name: calls[name] for name in names if name in calls}, count, threaded):
        try:
            samples = _samples(timed, found, cell, count, arrays, budgets, threaded)
        except BrokenError as error:
            found.refuse(error)
            del calls[error.kernel]
        else:
            found.samples[count].append(samples)
            return


def _samples(
    kernels: Mapping[str, stopwatch.Call],
    found: _Found,
    cell: Cell,
    count: int,
    arrays: Buffers,
    budgets: tuple[RoundBudget, RoundBudget],
    threaded: list[str],
) -> pd.DataFrame:
    """Samples of one cell in one round: of `_groups`, with the budget of each."""
    before_s = known_s(found.samples[count])
    if not before_s:
        cell_roof.load(cell.direction, arrays)
    groups = _groups(kernels, cell, count, arrays, before_s, threaded)
    known = dict.fromkeys(chain(*groups), min(found.run_s.values())) | found.run_s | before_s
    seeded = [one._replace(seed=seed_of(one.seed, cell, count))._asdict() for one in budgets]
    with stopwatch.threads(count):
        pairs = zip(groups, seeded, strict=False)
        return consecutive(stopwatch.compare(calls, known_s=known, **how) for calls, how in pairs)


def _groups(
    kernels: Mapping[str, stopwatch.Call],
    cell: Cell,
    count: int,
    arrays: Buffers,
    before_s: Mapping[str, float],
    threaded: list[str],
) -> list[dict[str, stopwatch.Call]]:
    """The calls that run interleaved: kernels and streams, then kernels and the baselines without a row."""
    with_rows = {name: call for name, call in kernels.items() if _has_row(name, count, threaded)}
    beside = {name: call for name, call in kernels.items() if name not in with_rows and not before_s}
    residency = _columns.of_cell(cell, count)["residency"]
    streams = cell_roof.with_noise(cell_roof.streams(cell.direction, arrays), residency)
    paged = cell_roof.in_pages(cell.direction, arrays, residency)
    first = cell_roof.contenders(streams, before_s) | with_rows | paged
    return [first, {name + BESIDE: call for name, call in with_rows.items()} | beside] if beside else [first]


def _rows(
    names: list[str], found: _Found, samples: pd.DataFrame, keys: dict[str, Any]
) -> list[dict[str, Any]]:
    timed = [name for name in names if name in found.facts]
    return [keys | found.facts[name] | _row(name, samples, keys) for name in timed]


def _row(name: str, samples: pd.DataFrame, keys: Mapping[str, Any]) -> dict[str, Any]:
    row = {"kernel": name} | _columns.of_call(keys, samples, name)
    if paged := cell_roof.paged(samples, keys["direction"]):
        row |= stopwatch.ratio(samples, paged, name).columns("pages_fraction")
    names = set(samples["name"])
    partner = name + BESIDE if name + BESIDE in names else name
    for baseline in set(BASELINES) & names:
        row |= stopwatch.ratio(samples, baseline, partner).columns(f"{baseline}_ratio")
    return row

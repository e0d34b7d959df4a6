"""How near to each other the cores of threads are, and what roof, kernel and either kind of store reach then.

In `relay` threads increment a counter in turn: the time per turn is the core-to-core latency. `handed` and
`kept` do the same work in the second-level caches: each thread updates a vector, in `handed` the one that its
neighbour updated in the round before, in `kept` its own. The ratio of their times is near 1 where two threads
share a core, and largest where the cores share no cache: then each may have its own path to memory. A host
may migrate the cores of a virtual machine; neither their placement nor a migration is visible from within.

All calls run interleaved, in rounds over all cells, with a pause before each: cores are assigned when work
begins. The repetitions in which no call was in the run queue, or all where these are too few (`stopwatch`),
are grouped into bands by the latency; band 0 holds all. The rows of a band hold medians over its repetitions.
roof_fraction is that of the pass with its default plan; stores_ratio is the time of the pass with ordinary
stores and a read of its whole result, over that with non-temporal stores, as in `stores`.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise, product
from time import sleep
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from layernorm_backward import roofs, stopwatch
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.experiments import _cells
from layernorm_backward.experiments import _variant_checks as check
from layernorm_backward.experiments._arguments import AtLeast, Count, Listed, Positive, Rising, Seconds, Seed
from layernorm_backward.experiments._cells import Cell, Sweep
from layernorm_backward.experiments._rounds import complete, joined, known_s, round_budgets
from layernorm_backward.experiments._stores import STORES, followed, plans
from layernorm_backward.kernels import numba_plan
from layernorm_backward.records.tabulate import table
from layernorm_backward.stopwatch import Call
from layernorm_backward.timing import cell_roof
from layernorm_backward.timing.pool import Buffers
from layernorm_backward.timing.timed import labelled, seed_of, together, too_many

LOOPS = {"handed": 1, "kept": 0}  # -> how many vectors a thread goes on in a round
PASS = "pass"
RELAY = "relay"


def run(
    *,
    sweeps: Listed[Sweep],
    loop_rounds: Count,
    turns: Count,
    bands_ns: Rising[Positive],
    rounds: Count,
    rest_s: Seconds,
    repeats: Count,
    at_least: AtLeast,
    budget_s: Seconds,
    error_rows: Count,
    error_limit_u: Positive,
    seed: Seed,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row per cell and band; `repeats`, `at_least` and `budget_s` are for all rounds of a cell.

    loop_rounds: how often a loop goes over its vectors in one call; turns: those of a relay. bands_ns: the
    latencies between two bands. rest_s: seconds of pause before a cell is timed.
    """
    sizes = {cell: _cells.sized(cell) for cell in _cells.cells(sweeps)}  # before memory is taken
    pool = _cells.pool(sizes, seed)
    refused = {cell: reason for cell in sizes if (reason := _impossible(cell.threads, turns))}
    samples, errors = defaultdict(list), {}
    planned = list(product(round_budgets(rounds, repeats, at_least, budget_s, seed), sizes))
    for budget, cell in tqdm(planned, desc="handover", mininterval=1):
        if cell in refused:
            continue
        sleep(rest_s)
        with stopwatch.threads(cell.threads):
            arrays = pool.buffers((sizes[cell].rows, cell.hidden), cell.dtype)
            passes, errors[cell] = _passes(cell, arrays, error_rows)
            if reason := check.wrong(errors[cell], error_limit_u):
                refused[cell] = reason
                continue
            calls = cell_roof.streams(cell.direction, arrays) | _loops(loop_rounds, turns) | passes
            known, seeded = known_s(samples[cell]), budget._replace(seed=seed_of(budget.seed, cell))
            samples[cell].append(stopwatch.compare(calls, known_s=known, **seeded._asdict()))
    timed = {cell: joined(samples[cell]) for cell in sizes if cell not in refused}
    rows = []
    for cell, size in sizes.items():
        about = _cells.about(cell, size)
        if cell in refused:
            rows.append(about | {"band": 0, "reason": refused[cell]})
        else:
            about["error_u_max"] = errors[cell]
            rows += [about | row for row in _rows(cell, about["bytes"], timed[cell], (turns, bands_ns))]
    keyed = [labelled(found, **_cells.keys(cell)) for cell, found in timed.items()]
    return table(rows, "handover"), together(keyed)


def _impossible(threads: int, turns: int) -> str:
    """Why a relay over this number of threads is impossible; "" where it is possible."""
    if threads == 1 or too_many(threads):
        return too_many(threads) or "one thread hands nothing on"
    with stopwatch.threads(threads):
        return "" if roofs.relay(turns)() == turns else "the threads do not run at the same time"


def _loops(rounds: int, turns: int) -> dict[str, Call]:
    """The calls of `relay`, `handed` and `kept` on the current number of threads, in float32."""
    handovers = {name: roofs.handovers("float32", rounds, step) for name, step in LOOPS.items()}
    return handovers | {RELAY: roofs.relay(turns)}


def _passes(cell: Cell, arrays: Buffers, error_rows: int) -> tuple[dict[str, Call], float]:
    """The pass as planned, and with each kind of store followed by a read; the largest error in u."""
    plan = numba_plan.choose(*arrays.x.shape, dtype_of(cell.dtype), cell.direction, cell.threads)
    calls, _, error_u = check.ran(cell.direction, arrays, plans(plan) | {PASS: plan}, error_rows)
    read = roofs.read(arrays.out)
    return calls | {name: followed(calls[name], read) for name in STORES}, error_u


def _rows(
    cell: Cell, size: int, samples: pd.DataFrame, relayed: tuple[int, list[float]]
) -> Iterator[dict[str, Any]]:
    """All repetitions, then those of each band."""
    roof = cell_roof.fastest(samples, cell.direction)
    seconds = complete(samples, [*LOOPS, RELAY, roof, PASS, *STORES])
    turns, bands_ns = relayed
    latency_ns = seconds[RELAY] / turns * 1e9
    ends = [(np.nan, np.nan), *pairwise([0.0, *bands_ns, np.inf])]
    for band, (low, high) in enumerate(ends):
        within = seconds if band == 0 else seconds[(latency_ns >= low) & (latency_ns < high)]
        row = {"band": band, "latency_from_ns": low, "latency_below_ns": high, "repeats": len(within)}
        if len(within) < stopwatch.FEWEST:
            yield row | {"reason": f"{len(within)} repetitions, fewer than {stopwatch.FEWEST}"}
            continue
        its = samples[samples["repeat"].isin(within.index)]
        row |= {"latency_ns": latency_ns[within.index].median(), "roof_operation": roof}
        row["handed_ratio"] = (within["handed"] / within["kept"]).median()
        row["roof_gb_per_s"] = size / within[roof].median() / 1e9
        fraction = stopwatch.ratio(its, roof, PASS).columns("roof_fraction")
        yield row | fraction | stopwatch.ratio(its, *STORES).columns("stores_ratio")

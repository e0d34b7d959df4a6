"""The time of every kernel beside the roof and beside the NumPy baselines, in one paired run.

A cell is a direction (forward, backward, or both in turn), a shape, a dtype of x and one of gamma, and a
thread count. Its kernels, copy or triad on the very same arrays (`_roof`), and the baselines run interleaved.
NumPy kernels use one thread by nature: they have rows in the cells with one thread; those in `threaded` in
all, and there the baselines run beside them. A row is held against the roof with its own number of threads,
with ordinary or non-temporal stores, whichever was faster.

Results go to preallocated arrays that were written before. What else a kernel allocates (NumPy's temporaries,
saved tensors) belongs to its time.

bytes is the working set (`_shapes`). residency is "memory" where it is at least four times the last-level
cache, "cache" where it fits there (each sample then follows an untimed run of its own call), else "partly".
noise is the cell's, and differs says whether the kernel's time differs from its roof's, by the rule of
`difference`.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

import pandas as pd
from tqdm import tqdm

from layernorm_backward import stopwatch
from layernorm_backward.difference import Ratio, differs
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.experiments import _columns, _roof, _shapes
from layernorm_backward.experiments._prepared import Buffers, Pool, Prepared, prepare, rows_looked_at
from layernorm_backward.experiments._sets import Set, cells
from layernorm_backward.experiments._timed import together, too_many
from layernorm_backward.kernels import KERNELS
from layernorm_backward.tabulate import table

BASELINES = ("compact", "overcached", "numpy_blocked")


def run(
    *,
    kernels: list[str],
    threaded: list[str],
    sets: dict[str, Set],
    repeats: int,
    at_least: int,
    budget_s: float,
    error_elements: int,
    error_limit_u: float,
    seed: int,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row a kernel, cell and thread count; `budget_s` is for one cell.

    Errors are looked at in rows of `error_elements` elements in all, and in at least four rows.
    """
    chosen = {name: KERNELS[name] for name in kernels}
    strangers = sorted(set(threaded) - set(kernels))
    if strangers:
        raise ValueError(f"threaded names {strangers}; allowed: {kernels}, the kernels of this config")
    how = {"repeats": repeats, "at_least": at_least, "budget_s": budget_s, "seed": seed}
    wanted = cells(sets, kernels, _shapes.memory_limit())
    pool = Pool(max(prod(cell.shape) * dtype_of(cell.dtype).itemsize for cell in wanted), seed)
    rows, samples = [], []
    for cell, counts in tqdm(wanted.items(), desc="timing_cpu", mininterval=1):
        arrays = pool.buffers(cell.shape, cell.dtype, cell.gamma_dtype)
        named = {name: kernel for name, kernel in chosen.items() if any(name in it for it in counts.values())}
        looked_at = rows_looked_at(error_elements, cell.shape[-1])
        ready, refused = prepare(named, cell.direction, arrays, looked_at, error_limit_u)
        for count, names in counts.items():
            keys = _columns.of_cell(cell, count)
            own = [name for name in names if count == 1 or name in threaded]
            rows += [keys | {"kernel": name, "reason": why} for name, why in _left_out(own, refused, count)]
            timed = [] if too_many(count) else [name for name in own if name in ready]
            if timed:
                beside = [name for name in BASELINES if name in names and name in ready]
                found = _timed(timed, beside, ready, keys, arrays, how)
                rows += found[0]
                samples.append(found[1])
        del ready
    return table(rows, "timing_cpu"), together(samples)


def _left_out(names: list[str], refused: Mapping[str, str], count: int) -> list[tuple[str, str]]:
    reasons = [(name, too_many(count) or refused.get(name, "")) for name in names]
    return [(name, reason) for name, reason in reasons if reason]


def _timed(
    names: list[str],
    beside: list[str],
    ready: Mapping[str, Prepared],
    cell: dict[str, Any],
    arrays: Buffers,
    how: dict[str, Any],
) -> tuple[list[dict[str, Any]], pd.DataFrame]:
    """Rows of `names`, and samples, of one cell."""
    calls = _roof.with_noise(_roof.streams(cell["direction"], arrays), cell["residency"])
    calls |= {name: ready[name].call for name in dict.fromkeys(names + beside)}
    known_s = {name: ready[name].first_s for name in calls if name in ready}
    lead = int(cell["residency"] == "cache")
    with stopwatch.threads(cell["threads"]):
        samples = stopwatch.compare(calls, lead=lead, warmup=0, known_s=known_s, **how)
    rows = [cell | _row(name, ready[name], samples, cell, how["seed"]) for name in names]
    return rows, _columns.with_keys(samples, cell)


def _row(
    name: str, kernel: Prepared, samples: pd.DataFrame, cell: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    row = {"kernel": name, "error_u_max": kernel.error_u_max}
    row |= {"saved_bytes": kernel.saved_bytes, "saved_extra_bytes": kernel.saved_extra_bytes}
    row |= {"saved_arrays": kernel.saved_arrays, "saved_scalars": kernel.saved_scalars}
    row |= _columns.of_call(cell, samples, name, seed)
    fraction = Ratio(*(row["roof_fraction" + end] for end in ("", "_low", "_high")))
    row["differs"] = differs(fraction, row["noise"])
    for baseline in set(BASELINES) & set(samples["name"]):
        row |= _columns.ratio(f"{baseline}_ratio", stopwatch.ratio(samples, baseline, name, seed))
    return row

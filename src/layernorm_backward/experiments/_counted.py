"""Bytes that a kernel moves to and from memory, read from the counters of the memory controllers.

The calls and threads are those that were timed, on arrays of the same size. First the triad runs on the
largest arrays, as a check: it moves three arrays, and a fourth where its stores are ordinary ones, which read
their lines first (write-allocate). If the counters do not show these bytes, nothing else is counted.
"""

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from layernorm_backward import counters, roofs, stopwatch
from layernorm_backward.counters.perf_events import Count
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.kernels import KERNELS
from layernorm_backward.timing.pool import ONE_RESULT, Buffers, Pool
from layernorm_backward.timing.prepared import renewed

KEYS = ["kernel", "direction", "dtype", "rows", "hidden"]
MOVED = {  # elements: an ordinary store reads its line first (write-allocate)
    name: count + (not roofs.non_temporal(name)) for name, count in roofs.ACCESSES.items()
}


class Counts(NamedTuple):
    """Bytes per call by the values of KEYS, and why some or all cells have none ("" where all have)."""

    bytes: dict[tuple[Any, ...], float]
    missing: str


def counted_bytes(
    cells: pd.DataFrame, *, repeats: int, tolerance: float, budget_s: float, seed: int
) -> Counts:
    """Counts for cells with KEYS and threads, each over `repeats` calls, until `budget_s` is spent."""
    missing = counters.missing() or ("" if len(cells) else "no cell beyond the cache was timed")
    if missing:
        return Counts({}, missing)
    cells = cells.sort_values(["dtype", "rows", "hidden"])
    sizes = [row["rows"] * row["hidden"] * dtype_of(row["dtype"]).itemsize for _, row in cells.iterrows()]
    pool, found, started = Pool(max(sizes), seed, ONE_RESULT), {}, perf_counter()
    with counters.memory_bytes() as count:
        largest = cells.iloc[int(np.argmax(sizes))]
        doubt = _doubt(count, _buffers(pool, largest), largest["threads"], repeats, tolerance)
        if doubt:
            return Counts({}, doubt)
        for _, cell in cells.iterrows():
            if perf_counter() - started > budget_s:
                return Counts(found, f"counting stopped after {budget_s:g} s")
            found[tuple(cell[KEYS])] = _counted(count, cell, _buffers(pool, cell), repeats)
    return Counts(found, "")


def _doubt(count: Count, arrays: Buffers, threads: int, repeats: int, tolerance: float) -> str:
    name = "triad" if roofs.missing("triad_nt") else "triad_nt"
    stream = roofs.stream(name, arrays.out, arrays.x, arrays.dy)
    with stopwatch.threads(int(threads)):
        counted = counters.per_call(count, stream, repeats)
    return counters.disbelief(counted, MOVED[name] * arrays.x.nbytes, tolerance)


def _counted(count: Count, cell: pd.Series, arrays: Buffers, repeats: int) -> float:
    """Bytes per call; the kernel's results were checked when it was timed."""
    call = renewed(KERNELS[cell["kernel"]], cell["direction"], arrays)
    with stopwatch.threads(int(cell["threads"])):
        return counters.per_call(count, call, repeats)


def _buffers(pool: Pool, cell: pd.Series) -> Buffers:
    return pool.buffers((int(cell["rows"]), int(cell["hidden"])), cell["dtype"])

"""The roofs of this machine: bandwidth of copy and triad, and the peak of multiply-add.

`bytes` is the working set of an operation: two arrays for copy, three for triad, none for multiply_add, which
stays in registers. `beyond_cache` is four times the last-level cache, so that at most a quarter of the data
can still be cached from the repetition before. The streams of a cell are timed interleaved. A working set
that fits a cache resides there, since each sample follows untimed runs. `note` says where a working set had
to be smaller than wanted, or what was assumed for it.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field
from tqdm import tqdm

from layernorm_backward import roofs, stopwatch
from layernorm_backward.aligned import aligned_empty
from layernorm_backward.experiments._arguments import AtLeast, Count, Seconds, Seed, Several, Threads
from layernorm_backward.records.tabulate import table
from layernorm_backward.timing import sizing
from layernorm_backward.timing.repeated import BLOCK, Repeated
from layernorm_backward.timing.timed import (
    labelled,
    seed_of,
    thread_counts,
    times,
    together,
    too_many,
)

LEAST_BYTES = 4096  # of a working set
_Bytes = Annotated[int, Field(ge=LEAST_BYTES)]


def run(
    *,
    dtypes: Several[Literal["float64", "float32"]],
    working_sets: Several[_Bytes | Literal["beyond_cache"]],
    threads: Threads,
    multiply_add_rounds: Count,
    memory_limit_bytes: Annotated[int, Field(ge=LEAST_BYTES * 3 // 2)],
    repeats: Count,
    at_least: AtLeast,
    budget_s: Seconds,
    seed: Seed,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row per operation, dtype, working set and thread count; `budget_s` is for one cell.

    The arrays take at most `memory_limit_bytes`, and at most a third of what is available.
    """
    limit = min(memory_limit_bytes, sizing.memory_limit())  # before memory is taken
    sizes = dict(_working_set(wanted, limit) for wanted in working_sets)
    memory = [aligned_empty(max(sizes) // 2, np.uint8) for _ in range(3)]
    how = {"repeats": repeats, "at_least": at_least, "budget_s": budget_s, "seed": seed}
    rows, samples = [], []
    cells = [(dtype, count) for dtype in dtypes for count in thread_counts(threads)]
    for dtype, count in tqdm(cells, desc="ceiling_cpu", mininterval=1):
        if too_many(count):
            rows += _unmeasured(dtype, sizes, count)
            continue
        for size, note in sizes.items():
            ordered = how | {"seed": seed_of(seed, dtype, size, count)}
            found = _streams(dtype, size, memory, count, ordered)
            rows += [row | {"note": note} for row in found[0]]
            samples.append(found[1])
        found = _peak(dtype, multiply_add_rounds, count, how)
        rows.append(found[0])
        samples.append(found[1])
    return table(rows, "ceiling_cpu"), together(samples)


def _streams(
    dtype: str, size: int, memory: list[NDArray[np.uint8]], count: int, how: dict[str, Any]
) -> tuple[list[dict[str, Any]], pd.DataFrame]:
    cell = {"dtype": dtype, "bytes": size, "threads": count}
    buffers, itemsize = _buffers(dtype, size, memory), np.dtype(dtype).itemsize
    possible = [name for name in roofs.STREAMS if not roofs.missing(name)]
    elements = {name: size // roofs.ACCESSES[name] // itemsize for name in possible}
    calls = {name: roofs.stream(name, *(b[: elements[name]] for b in buffers)) for name in possible}
    with stopwatch.threads(count):
        samples = stopwatch.compare(calls, **how)
    rows = [cell | {"operation": name, "reason": roofs.missing(name)} for name in roofs.STREAMS]
    for name in possible:
        row = rows[roofs.STREAMS.index(name)]
        row |= times(samples, name)
        row["gb_per_s"] = roofs.ACCESSES[name] * elements[name] * itemsize / row["median_s"] / 1e9
    return rows, labelled(samples, **cell)


def _peak(dtype: str, rounds: int, count: int, how: dict[str, Any]) -> tuple[dict[str, Any], pd.DataFrame]:
    cell = {"dtype": dtype, "bytes": 0, "threads": count}
    with stopwatch.threads(count):
        samples = stopwatch.compare({"multiply_add": roofs.multiply_adds(dtype, rounds)}, **how)
    row = cell | {"operation": "multiply_add"} | times(samples, "multiply_add")
    row["gflop_per_s"] = roofs.operations(dtype, rounds, count) / row["median_s"] / 1e9
    return row, labelled(samples, **cell)


def _buffers(dtype: str, size: int, memory: list[NDArray[np.uint8]]) -> list[NDArray]:
    """Three arrays of random numbers in `memory`, each half of `size`: the longest that any stream needs."""
    rng, itemsize = np.random.default_rng(0), np.dtype(dtype).itemsize
    buffers = [its[: size // 2 // itemsize * itemsize].view(dtype) for its in memory]
    for buffer in buffers:
        Repeated(buffer, rng.random(min(BLOCK, buffer.size), buffer.dtype)).fill()
    return buffers


def _working_set(wanted: int | str, limit: int) -> tuple[int, str]:
    """Bytes of a working set, or what fits the limit; and why it had to be less, what was assumed, or ""."""
    beyond = wanted == "beyond_cache"
    size, assumed = (sizing.beyond_cache(), sizing.assumed()) if beyond else (wanted, "")
    most = max(LEAST_BYTES, limit * 2 // 3)  # the buffers are three arrays of half a working set
    if size <= most:
        return size, assumed
    less = f"{size} bytes were wanted; memory_limit_bytes and a third of the available memory allow {most}"
    return most, "; ".join(filter(None, (less, assumed)))


def _unmeasured(dtype: str, sizes: Iterable[int], count: int) -> list[dict[str, Any]]:
    keys = [(name, size) for size in sizes for name in roofs.STREAMS] + [("multiply_add", 0)]
    common = {"dtype": dtype, "threads": count, "reason": too_many(count)}
    return [common | {"operation": name, "bytes": size} for name, size in keys]

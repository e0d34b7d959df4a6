"""Operations and memory accesses of each kernel: modelled, counted by running it, and judged by its time.

operations_per_element and accesses_per_element are the model's (`traffic`), the counted_ ones are found by
running the kernel on counting arrays (`traffic.counts`). An access is a read or write of an element of a
tensor of x's size, whether memory or cache answers it; reductions are the sums over D.

minimum_bytes: x, dy read once and dx written (backward), x read and y written (forward), mean and rstd of
each row, and the vectors of length D. modelled_bytes: every access of the model that reaches memory, and the
cache line that an ordinary store reads first (write-allocate), with the same statistics and vectors. A
non-temporal store has none: `stores` says what numba_fused chooses for its result at this size.

measured_bytes is for the shapes beyond the cache that `timing_cpu` timed, with the most threads. Where the
machine permits, they are counted by the memory controllers (`_counted`). Elsewhere they are an estimate, and
`counter` says why: the kernel's time, times the bandwidth of the roof beside it, write-allocate included.
These are the bytes that the roof's stream would have moved in that time: too many where the kernel is not
limited by memory alone, too few where it reaches a higher bandwidth than the stream.
"""

from functools import cache
from typing import Annotated, Any, Literal

import pandas as pd
from tqdm import tqdm

from layernorm_backward.directions import Direction
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.experiments._arguments import (
    Count,
    Distinct,
    Names,
    Positive,
    Seconds,
    Seed,
    Several,
    Shape,
    each_of,
)
from layernorm_backward.experiments._counted import KEYS, MOVED, Counts, counted_bytes
from layernorm_backward.kernels import KERNELS, numba_plan
from layernorm_backward.records.tabulate import table
from layernorm_backward.traffic import MODELS, Stores, totals
from layernorm_backward.traffic.counts import count
from layernorm_backward.traffic.minimum import minimum_bytes, small_bytes
from layernorm_backward.traffic.schemes import SCHEMES

NEEDS = ("timing_cpu",)


def run(
    *,
    kernels: Names,
    schemes: Annotated[Distinct[str], each_of(SCHEMES)],
    directions: Several[Direction],
    dtypes: Several[Literal["float64", "float32"]],
    shapes: Several[Shape],
    counter_repeats: Count,
    counter_tolerance: Positive,
    counter_budget_s: Seconds,
    seed: Seed,
    timing_cpu: pd.DataFrame,
) -> pd.DataFrame:
    """One row per kernel or scheme, direction, dtype and shape: those given, those timed beyond the cache."""
    names = [KERNELS[name].name for name in kernels] + schemes
    timed = _timed(timing_cpu, names, directions)
    counts = counted_bytes(
        timed, repeats=counter_repeats, tolerance=counter_tolerance, budget_s=counter_budget_s, seed=seed
    )
    given = [
        (name, direction, dtype, batch * time, hidden)
        for name in names
        for direction in directions
        for dtype in dtypes
        for batch, time, hidden in shapes
    ]
    beyond = {tuple(row[KEYS]): row for _, row in timed.iterrows()}
    cells = dict.fromkeys([*given, *beyond])
    rows = [
        _row(dict(zip(KEYS, cell, strict=True)), beyond.get(cell), counts)
        for cell in tqdm(cells, desc="traffic_cpu", mininterval=1)
    ]
    return table(rows, "traffic_cpu")


def _timed(timing: pd.DataFrame, names: list[str], directions: list[Direction]) -> pd.DataFrame:
    """The timing of each cell beyond the cache, gamma in x's dtype, with most threads."""
    here = (timing["reason"] == "") & (timing["residency"] == "memory")
    here &= timing["kernel"].isin(names) & timing["direction"].isin(directions)
    here &= timing["gamma_dtype"] == timing["dtype"]
    return timing[here].sort_values("threads", kind="stable").drop_duplicates(KEYS, keep="last")


def _row(cell: dict[str, Any], timed: pd.Series | None, counts: Counts) -> dict[str, Any]:
    name, direction, dtype, rows, hidden = cell.values()
    reason = _unmodelled(name, dtype)
    if reason:
        return cell | {"reason": reason}
    stores = _stores(**cell)
    per_element = _per_element(name, direction, dtype, stores)
    tensor, size = rows * hidden * dtype_of(dtype).itemsize, (direction, dtype, rows, hidden)
    found = {
        "stores": stores,
        "minimum_bytes": minimum_bytes(*size),
        "modelled_bytes": totals(MODELS[name][direction]).memory_accesses(stores) * tensor
        + small_bytes(*size),
    }
    measured = {} if timed is None else _measured(cell, timed, tensor, counts)
    if measured:
        measured["measured_over_minimum"] = measured["measured_bytes"] / found["minimum_bytes"]
    return cell | per_element | found | measured


def _unmodelled(name: str, dtype: str) -> str:
    if name not in MODELS:
        return f"no traffic model is written down for {name}"
    if name == "reference" and dtype != "float64":
        return f"its intermediates are float64; it is modelled for float64, not {dtype}"
    if name != "numba_fused" and dtype not in ("float64", "float32"):
        return f"NumPy's passes in {dtype} are not modelled; they are for float64 and float32"
    return ""


def _stores(kernel: str, direction: Direction, dtype: str, rows: int, hidden: int) -> Stores:
    """Whether numba_fused uses non-temporal stores for its result, except in partial lines at row ends."""
    plan = numba_plan.choose(rows, hidden, dtype_of(dtype), direction)
    streams = kernel == "numba_fused" and plan.stream
    return "non-temporal" if streams else "ordinary"


@cache
def _per_element(name: str, direction: Direction, dtype: str, stores: Stores) -> dict[str, Any]:
    modelled, counted = totals(MODELS[name][direction]), count(name, direction, dtype, stores)
    return {
        "operations_per_element": modelled.operations,
        "accesses_per_element": modelled.accesses,
        "counted_operations_per_element": counted.operations,
        "counted_accesses_per_element": counted.accesses,
        "reductions": modelled.row_sums,
    }


def _measured(cell: dict[str, Any], timed: pd.Series, tensor: int, counts: Counts) -> dict[str, Any]:
    how = f"{timed['threads']} threads" if timed["threads"] > 1 else "1 thread"
    counted = counts.bytes.get(tuple(cell.values()))
    if counted is not None:
        return {"measured_bytes": counted, "method": f"counted by the memory controllers, {how}"}
    roof = timed["roof_operation"]
    return {
        "measured_bytes": MOVED[roof] * tensor / timed["roof_fraction"],
        "method": f"estimated: time x bandwidth of {roof}, {how}",
        "counter": counts.missing,
    }

"""Time and memory of the kernels as the number of rows, or the hidden size, grows over three decades.

The other axis is held fixed. The kernels of a point are timed interleaved, with all threads, each on
results that were checked (`timing.prepared`). overhead_s is the time of the same call on a single element:
what a call costs whatever its size. A kernel that is refused there is not timed anywhere. For memory see
`_memory`. chunks: those into which numba_fused cuts the rows, each with sums of its own. A point whose arrays
take more than a third of the memory is not measured.
"""

from collections.abc import Mapping
from itertools import product
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import AfterValidator, ValidationInfo
from pydantic_core import PydanticCustomError
from tqdm import tqdm

from layernorm_backward import stopwatch
from layernorm_backward.directions import Direction
from layernorm_backward.experiments._arguments import AtLeast, Count, Names, Positive, Seconds, Seed, Several
from layernorm_backward.experiments._memory import memory
from layernorm_backward.kernels import KERNELS, numba_plan
from layernorm_backward.records.tabulate import table
from layernorm_backward.storage.yamlfile import REFUSED
from layernorm_backward.timing import sizing
from layernorm_backward.timing.pool import ONE_RESULT, buffers
from layernorm_backward.timing.prepared import Prepared, prepare
from layernorm_backward.timing.timed import labelled, most_threads, seed_of, times, together

Axis = Literal["rows", "hidden"]


def _for_each_axis(fixed: dict[Axis, int], info: ValidationInfo) -> dict[Axis, int]:
    missing = [axis for axis in info.data.get("axes", ()) if axis not in fixed]
    if missing:
        said = {"missing": ", ".join(missing)}
        raise PydanticCustomError(REFUSED, "nothing for {missing}; needed: each axis under axes", said)
    return fixed


def run(
    *,
    kernels: Names,
    directions: Several[Direction],
    axes: dict[Axis, Several[Count]],
    fixed: Annotated[dict[Axis, Count], AfterValidator(_for_each_axis)],
    dtype: Literal["float64", "float32"],
    repeats: Count,
    at_least: AtLeast,
    budget_s: Seconds,
    error_rows: Count,
    error_limit_u: Positive,
    seed: Seed,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row per kernel, direction, axis and size; `fixed` holds the size of the other axis for each."""
    chosen = {name: KERNELS[name] for name in kernels}
    how = {"repeats": repeats, "at_least": at_least, "budget_s": budget_s}
    checked = {"error_rows": error_rows, "error_limit_u": error_limit_u}
    element = buffers((1, 1), dtype, seed)
    single = {way: prepare(chosen, way, element, **checked) for way in directions}
    overheads = {
        way: _overheads(ready, how | {"seed": seed_of(seed, "overhead", way)})
        for way, (ready, _) in single.items()
    }
    rows, samples = [], []
    limit = sizing.memory_limit()  # before memory is taken
    points = [(axis, size) for axis, sizes in axes.items() for size in sizes]
    for axis, size in tqdm(points, desc="scaling_points", mininterval=1):
        shape = (size, fixed[axis]) if axis == "rows" else (fixed[axis], size)
        keys = {"axis": axis, "rows": shape[0], "hidden": shape[1], "dtype": dtype}
        if reason := _too_large(shape, dtype, limit):
            pairs = product(directions, chosen)
            rows += [keys | {"direction": way, "kernel": name, "reason": reason} for way, name in pairs]
            continue
        arrays = buffers(shape, dtype, seed)
        for way in directions:
            cell = {"direction": way} | keys
            ready, refused = prepare({name: chosen[name] for name in overheads[way]}, way, arrays, **checked)
            refused |= {name: f"on a single element: {reason}" for name, reason in single[way][1].items()}
            rows += [cell | {"kernel": name, "reason": reason} for name, reason in refused.items()]
            if not ready:
                continue
            ordered = how | {"seed": seed_of(seed, *cell.values())}
            samples.append(labelled(_compared(ready, ordered), **cell))
            ready.clear()  # frees what was saved, before memory is measured
            for name in samples[-1]["name"].unique():
                found = times(samples[-1], name) | memory(chosen[name], way, arrays)._asdict()
                rows.append(cell | {"kernel": name} | overheads[way][name] | found | _chunks(name, cell))
    return table(rows, "scaling_points"), together(samples)


def _overheads(ready: Mapping[str, Prepared], how: dict[str, Any]) -> dict[str, dict[str, float]]:
    samples = _compared(ready, how) if ready else pd.DataFrame()
    return {name: {"overhead_s": times(samples, name)["median_s"]} for name in ready}


def _too_large(shape: tuple[int, int], dtype: str, limit: int) -> str:
    """Why the arrays of a point cannot be had within `limit` bytes, "" where they can."""
    taken = sizing.held(ONE_RESULT, *shape, dtype)
    said = f"its {ONE_RESULT} arrays take {taken} bytes; a third of the available memory is {limit}"
    return said if taken > limit else ""


def _chunks(name: str, cell: dict[str, Any]) -> dict[str, float]:
    if name != "numba_fused" or cell["direction"] != "backward":
        return {}
    return {"chunks": numba_plan.choose(cell["rows"], cell["hidden"], np.dtype(cell["dtype"])).chunks}


def _compared(ready: Mapping[str, Prepared], how: dict[str, Any]) -> pd.DataFrame:
    calls = {name: kernel.call for name, kernel in ready.items()}
    known_s = {name: kernel.run_s for name, kernel in ready.items()}
    with stopwatch.threads(most_threads()):
        return stopwatch.compare(calls, known_s=known_s, **how)

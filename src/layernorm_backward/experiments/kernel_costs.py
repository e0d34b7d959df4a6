"""What each decision of numba_fused costs or brings: the kernel as it is against it with one taken back.

A cell is a working set, dtype, hidden size, direction and thread count. Its variants (`_variants`) and the
default run interleaved on the same arrays, the default twice, which gives the noise. What the decision adds
to the time without it is cost = time(default)/time(variant) - 1, the median of pairs; below 0 it saves time.

Correct before timed: error_u_max is the largest error of some rows of the timed arrays. kappa_error_u_max is
that of rows whose mean is kappa deviations off, which is what re-centring is for: its price and its use stand
in one row. bits_equal: whether all results are those of the default bit by bit, with any number of threads.
"""

from itertools import product
from typing import Any, Literal

import pandas as pd
from pydantic import ConfigDict
from tqdm import tqdm
from typing_extensions import TypedDict

from layernorm_backward.dtypes import DTYPE_NAMES, DtypeName, dtype_of
from layernorm_backward.experiments import _shapes
from layernorm_backward.experiments._prepared import Pool
from layernorm_backward.experiments._timed import ThreadCount, thread_counts, together
from layernorm_backward.experiments._variant_cells import Cell, Checks, measured
from layernorm_backward.experiments._variants import Shape, Variant, plans
from layernorm_backward.tabulate import table


class Sweep(TypedDict):
    """Every combination of these is a cell."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)
    working_sets: list[_shapes.WorkingSet]
    dtypes: list[DtypeName]
    hidden: list[int]
    directions: list[Literal["forward", "backward"]]
    threads: list[ThreadCount]


def run(
    *,
    variants: list[Variant],
    sweeps: list[Sweep],
    kappas: dict[DtypeName, float],
    repeats: int,
    at_least: int,
    budget_s: float,
    error_rows: int,
    error_limit_u: float,
    bit_rows: int,
    seed: int,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row a variant and cell, the default among them; `budget_s` is for the repetitions of one cell."""
    checks = Checks(error_rows, bit_rows, error_limit_u, kappas, seed)
    how = {"repeats": repeats, "at_least": at_least, "budget_s": budget_s}
    sizes = {cell: _sized(cell) for cell in _cells(sweeps)}  # before memory is taken, on which they depend
    pool = Pool(max((_bytes(cell, size) for cell, size in sizes.items()), default=0), seed, arrays=3)
    rows, samples = [], []
    for cell, size in tqdm(sizes.items(), desc="kernel_costs", mininterval=1):
        about = _about(cell, size)
        arrays = pool.buffers((size.rows, cell.hidden), cell.dtype)
        made = plans(variants, Shape(size.rows, cell.hidden, cell.dtype, cell.direction, cell.threads))
        found, timed = measured(cell, made, arrays, checks, how)
        rows += [{"variant": name} | about | made[name]._asdict() | found[name] for name in made]
        samples += timed
    return table(rows, "kernel_costs"), together(samples)


def _cells(sweeps: list[Sweep]) -> list[Cell]:
    """Every cell once, those of a dtype together: they share the numbers in their arrays."""
    found = [
        Cell(*keys)
        for sweep in sweeps
        for keys in product(
            sweep["working_sets"],
            sweep["dtypes"],
            sweep["hidden"],
            sweep["directions"],
            thread_counts(sweep["threads"]),
        )
    ]
    return sorted(dict.fromkeys(found), key=lambda cell: DTYPE_NAMES.index(cell.dtype))


def _sized(cell: Cell) -> _shapes.Sized:
    return _shapes.sized(cell.hidden, cell.dtype, cell.direction, cell.working_set)


def _bytes(cell: Cell, size: _shapes.Sized) -> int:
    """Bytes of one array of x's size."""
    return size.rows * cell.hidden * dtype_of(cell.dtype).itemsize


def _about(cell: Cell, size: _shapes.Sized) -> dict[str, Any]:
    """The columns that say what a row is about."""
    touched = _shapes.touched(cell.direction, size.rows, cell.hidden, cell.dtype)
    about = cell._asdict() | {"working_set": str(cell.working_set), "rows": size.rows, "bytes": touched}
    return about | {"residency": _shapes.residency(touched), "note": size.note}

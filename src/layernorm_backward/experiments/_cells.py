"""Cells of numba_fused alone: all combinations of working set, dtype, D, direction and threads in a sweep."""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any, NamedTuple

from pydantic import ConfigDict
from typing_extensions import TypedDict

from layernorm_backward.directions import Direction
from layernorm_backward.dtypes import DTYPE_NAMES, DtypeName, dtype_of
from layernorm_backward.experiments._arguments import Count, Several, Threads, WorkingSet
from layernorm_backward.timing import sizing
from layernorm_backward.timing.pool import ONE_RESULT, Pool
from layernorm_backward.timing.timed import thread_counts


class Sweep(TypedDict):
    """Every combination of these is a cell."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)
    working_sets: Several[WorkingSet]
    dtypes: Several[DtypeName]
    hidden: Several[Count]
    directions: Several[Direction]
    threads: Threads


class Cell(NamedTuple):
    """The keys of a cell."""

    working_set: sizing.WorkingSet
    dtype: DtypeName
    hidden: int
    direction: Direction
    threads: int


def cells(sweeps: Iterable[Sweep]) -> list[Cell]:
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


def sized(cell: Cell) -> sizing.Sized:
    """The rows of a cell."""
    return sizing.sized(cell.hidden, cell.dtype, cell.direction, cell.working_set, arrays=ONE_RESULT)


def array_bytes(cell: Cell, rows: int) -> int:
    """Bytes of one array of x's size."""
    return rows * cell.hidden * dtype_of(cell.dtype).itemsize


def pool(sizes: Mapping[Cell, sizing.Sized], seed: int) -> Pool:
    """Memory for the arrays of any of these cells."""
    most = max((array_bytes(cell, size.rows) for cell, size in sizes.items()), default=0)
    return Pool(most, seed, ONE_RESULT)


def keys(cell: Cell) -> dict[str, Any]:
    """The columns that tell a cell from others."""
    return cell._asdict() | {"working_set": str(cell.working_set)}


def about(cell: Cell, size: sizing.Sized) -> dict[str, Any]:
    """The columns that say what a row is about."""
    touched = sizing.touched(cell.direction, size.rows, cell.hidden, cell.dtype)
    return keys(cell) | {"rows": size.rows, "bytes": touched} | sizing.placed(touched, size.note)

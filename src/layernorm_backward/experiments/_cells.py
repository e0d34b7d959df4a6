"""Cells of numba_fused alone: all combinations of working set, dtype, D, direction and threads in a sweep."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

from pydantic import ConfigDict
from tqdm import tqdm
from typing_extensions import TypedDict

from layernorm_backward.directions import Direction
from layernorm_backward.dtypes import DTYPE_NAMES, DtypeName
from layernorm_backward.experiments._arguments import Count, Several, Threads, WorkingSet
from layernorm_backward.timing import sizing
from layernorm_backward.timing.pool import ONE_RESULT, Buffers, Pool
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
    """Every cell once, grouped by dtype: cells of one dtype share the contents of their arrays."""
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


def pool(sizes: Mapping[Cell, sizing.Sized], seed: int) -> Pool:
    """Memory for the arrays of any of these cells."""
    each = (sizing.held(1, size.rows, cell.hidden, cell.dtype) for cell, size in sizes.items())
    return Pool(max(each, default=0), seed, ONE_RESULT)


def posed(
    sizes: Mapping[Cell, sizing.Sized], seed: int, experiment: str
) -> Iterator[tuple[Cell, dict[str, Any], Buffers]]:
    """Each cell with the columns of `about` and its arrays, in shared memory; shows progress."""
    memory = pool(sizes, seed)
    for cell, size in tqdm(sizes.items(), desc=experiment, mininterval=1):
        yield cell, about(cell, size), memory.buffers((size.rows, cell.hidden), cell.dtype)


def keys(cell: Cell) -> dict[str, Any]:
    """The columns that identify a cell."""
    return cell._asdict() | {"working_set": str(cell.working_set)}


def about(cell: Cell, size: sizing.Sized) -> dict[str, Any]:
    """The columns that describe a cell: its keys, sizes and residency."""
    touched = sizing.touched(cell.direction, size.rows, cell.hidden, cell.dtype)
    return keys(cell) | {"rows": size.rows, "bytes": touched} | sizing.placed(touched, size.note)

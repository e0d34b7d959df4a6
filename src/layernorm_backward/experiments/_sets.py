"""The cells of a timing: all combinations of the sets in a config, each cell once.

A cell that several sets contain is measured once, with the kernels of all of them.
"""

from collections.abc import Mapping
from itertools import product
from typing import Literal, NamedTuple

from typing_extensions import TypedDict

from layernorm_backward.directions import AnyDirection
from layernorm_backward.dtypes import DTYPE_NAMES, DtypeName, gamma_names
from layernorm_backward.experiments._arguments import Count, Names, Several, Shape, Threads, WorkingSet
from layernorm_backward.timing import sizing
from layernorm_backward.timing.pool import ALL_ARRAYS
from layernorm_backward.timing.timed import thread_counts


class ByWorkingSet(TypedDict):
    """Hidden sizes, with as many rows as fill the working set."""

    hidden: Several[Count]
    working_set: WorkingSet


class Set(TypedDict):
    """Kernels on all combinations of what follows; gamma is in x's dtype, or float32 beside 16-bit x."""

    kernels: Names
    directions: Several[AnyDirection]
    sizes: Several[Shape] | ByWorkingSet
    dtypes: Several[DtypeName]
    gamma_dtypes: Several[Literal["same", "float32"]]
    threads: Threads


class Cell(NamedTuple):
    """The key of a cell: one set of arrays; `note` says why it has fewer rows than were wanted."""

    direction: AnyDirection
    dtype: DtypeName
    gamma_dtype: DtypeName
    shape: tuple[int, int, int]
    note: str


Counts = dict[int, list[str]]  # thread count -> kernels


def cells(sets: Mapping[str, Set], limit: int) -> dict[Cell, Counts]:
    """The kernels of every cell by thread count; cells of one dtype follow each other, the widest first.

    `limit`: bytes that the arrays of a cell may take, all that a `Pool` allocates. ValueError for a shape
    over the limit.
    """
    found: dict[Cell, Counts] = {}
    for name, one in sets.items():
        for cell, count in product(_cells(name, one, limit), thread_counts(one["threads"])):
            here = found.setdefault(cell, {}).setdefault(count, [])
            here += [kernel for kernel in one["kernels"] if kernel not in here]
    return dict(sorted(found.items(), key=lambda item: DTYPE_NAMES.index(item[0].dtype)))


def _cells(name: str, one: Set, limit: int) -> list[Cell]:
    found = []
    for dtype, wanted, direction in product(one["dtypes"], one["gamma_dtypes"], one["directions"]):
        beside = wanted if wanted in gamma_names(dtype) else dtype
        try:
            sizes = _sizes(one["sizes"], dtype, direction, limit)
        except ValueError as error:
            raise ValueError(f"sets: {name}: sizes: {error}") from None
        found += [Cell(direction, dtype, beside, shape, note) for shape, note in sizes]
    return found


def _sizes(
    sizes: list[tuple[int, int, int]] | ByWorkingSet, dtype: str, direction: AnyDirection, limit: int
) -> list[tuple[tuple[int, int, int], str]]:
    if isinstance(sizes, list):
        return [(_held(tuple(shape), dtype, limit), "") for shape in sizes]
    found = []
    for hidden in sizes["hidden"]:
        rows, note = sizing.sized(hidden, dtype, direction, sizes["working_set"], limit, ALL_ARRAYS)
        found.append(((1, rows, hidden), note))
    return found


def _held(shape: tuple[int, int, int], dtype: str, limit: int) -> tuple[int, int, int]:
    """The shape; ValueError where its arrays are over the limit."""
    size = sizing.held(ALL_ARRAYS, shape[0] * shape[1], shape[2], dtype)
    if size > limit:
        arrays = f"the {ALL_ARRAYS} arrays of {list(shape)} in {dtype} take {size} bytes"
        raise ValueError(f"{arrays}; allowed here: {limit}, a part of the available memory")
    return shape

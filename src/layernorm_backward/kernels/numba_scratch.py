"""The scratch memory of one call of numba_fused: a single block, and the layout of its arrays.

NumPy allocates the block, so that memory profilers see it; the compiled passes slice it. The layout follows
from the shape.
"""

from itertools import chain
from math import prod
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from layernorm_backward.aligned import PAGE
from layernorm_backward.kernels.lane_memory import elements
from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.kernels.numba_walk import GROUPS, PLAIN

ASIDE = 384  # bytes, six lines: three to eight are as fast
APART = 8192  # bytes, two pages, between the running sums of two tasks: hardware prefetchers run on into the
# following pages, and would take their lines from the thread that writes them


# Rows after a stretch of rows, those of the next two groups, whose statistics are copied with its own.
BEYOND = 2 * max(GROUPS)


class Layout(NamedTuple):
    """Elements of the block, a page more than needed, and (start, *shape) of its arrays, concatenated."""

    size: int
    places: NDArray[np.intp]


def of_forward(columns: int, itemsize: int, tasks: int = 0) -> Layout:
    """gamma and beta, each (columns,), and (tasks, more): the buffer of a widened row for each task.

    A buffer's address is, modulo a page, as far from gamma and beta as possible, for the reason given in
    `of_backward`.
    """
    page, vectors = PAGE // itemsize, 2 * columns
    row = APART // itemsize + -(-columns // page) * page
    first = -(-vectors // page) * page + _apart_from(0, columns * itemsize) // itemsize
    places = [(0, columns), (columns, columns), (first if tasks else 0, tasks, row)]
    return _layout(first + tasks * row if tasks else vectors, places, itemsize)


def _apart_from(*taken: int) -> int:
    """The line of a page, as a byte offset, that is farthest from all those taken, modulo a page."""

    def distance(place: int) -> int:
        return min(min((place - other) % PAGE, (other - place) % PAGE) for other in taken)

    return max(range(0, PAGE, LINE), key=distance)


def of_backward(
    chunks: int,
    block: int,
    stretch: int,
    rows: int,
    tasks: int,
    columns: int,
    itemsize: int,
    widened: bool = False,
) -> Layout:
    """gamma (columns,), sums (chunks, 2*columns), levels (tasks, n, 2*columns), parts (tasks, more), copies.

    copies: mean and rstd, (tasks, 2, stretch + BEYOND in whole lines), none where the stretch is 0.
    A part has the running sums of dgamma and of dbeta and, if `widened`, z and dy of a row: see `part_row`.

    A load waits for a store just before it to the same address modulo 4096. So the rows of a part begin half
    or a quarter of a page apart, and those of short rows share no offset in a page with gamma or with x and
    dy.
    """
    vector, blocks, page = columns * itemsize, -(-rows // block), PAGE // itemsize
    carried = max(0, -(-blocks // chunks) - 1)
    count = 4 if widened else 2
    step = vector + (PAGE // count - vector) % PAGE
    part = (APART + (count - 1) * step + vector) // itemsize
    line = LINE // itemsize
    copies = -(-(stretch + BEYOND) // line) * line if stretch else 0
    levels = tasks, carried.bit_length(), 2 * columns
    shapes = (tasks, part), (chunks, 2 * columns), levels, (tasks, 2, copies)
    starts = [ASIDE // itemsize if vector <= 2 * PAGE else 0]
    for shape in shapes:
        starts.append(starts[-1] + prod(shape))
    gamma = -(-starts.pop() // page) * page
    parts, sums, levels, copies = ((start, *shape) for start, shape in zip(starts, shapes, strict=True))
    return _layout(gamma + columns, [(gamma, columns), sums, levels, parts, copies], itemsize)


def _layout(size: int, places: list[tuple[int, ...]], itemsize: int) -> Layout:
    found = np.array(list(chain.from_iterable(places)), np.intp)
    return Layout(size + PAGE // itemsize, found)


@njit(**PLAIN)
def _first(held):
    """The first element of a block that begins a page."""
    return -np.intp(held.ctypes.data) % PAGE // held.itemsize


@njit(**PLAIN)
def _vector(held, start, vector, columns):
    """A vector (D,), copied to (columns,) at element `start` of a block and padded with zeros."""
    placed, size = held[start : start + columns], vector.size
    given, found = elements(vector), elements(placed)
    for j in range(size):
        found[j] = given[j]
    for j in range(size, columns):
        found[j] = 0
    return placed


@njit(**PLAIN)
def part_row(part, which, count, columns):
    """A task's part, from row `which` on; the part has `count` rows of so many columns."""
    first = APART // part.itemsize
    return part[first + which * ((part.size - columns - first) // (count - 1)) :]


@njit(**PLAIN)
def cut_forward(held, places, gamma, beta):
    """The arrays of `of_forward`, with gamma (D,) and beta (D,) in them; the third is not initialized."""
    first = _first(held)
    start, tasks, row = first + places[4], places[5], places[6]
    return (
        _vector(held, first + places[0], gamma, places[1]),
        _vector(held, first + places[2], beta, places[3]),
        held[start : start + tasks * row].reshape((tasks, row)),
    )


@njit(**PLAIN)
def cut_backward(held, places, gamma):
    """The arrays of `of_backward`, with gamma (D,) in them; the others are not initialized."""
    first = _first(held)
    vector = _vector(held, first + places[0], gamma, places[1])
    start, chunks, columns = first + places[2], places[3], places[4]
    sums = held[start : start + chunks * columns].reshape((chunks, columns))
    start, tasks, count = first + places[5], places[6], places[7]
    levels = held[start : start + tasks * count * columns].reshape((tasks, count, columns))
    start, part = first + places[9], places[11]
    parts = held[start : start + tasks * part].reshape((tasks, part))
    start, length = first + places[12], places[15]
    copies = held[start : start + tasks * 2 * length].reshape((tasks, 2, length))
    return vector, sums, levels, parts, copies

"""How threads share equal units of work: each has a range of its own, then steals pieces of the others.

A thread's range is the same in every call, and that of any static schedule of equal ranges: what it read or
wrote before is in caches and memory near it. A virtual processor whose physical core also serves another
program is slower than its neighbour for seconds, so ranges are cut into shrinking pieces and all threads end
at about the same time. Where results stay in the caches, ranges are not cut: a line that another core has
written is the most expensive access where the two share no cache, and a few of them cost more than waiting.
"""

from functools import cache
from itertools import pairwise

import numpy as np
from numba import njit
from numpy.typing import NDArray

from layernorm_backward.kernels.lane_memory import fetch_add
from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.kernels.numba_walk import PLAIN

UNITS = 64  # for work that can be cut at any line
_COUNTERS = LINE // np.dtype(np.intp).itemsize  # in a line
SHARE = 2  # a piece is 1/SHARE of what is left of its range


@cache
def pieces(units: int, tasks: int, whole: bool = False) -> NDArray[np.intp]:
    """Bounds (tasks, n) of the pieces of each task's range; the ranges divide 0 to `units`.

    A piece is 1/SHARE of what is left of the range, at least a unit; the last of a range may be followed by
    empty ones. The range of a single task is one piece; if `whole`, so is every range. The array is cached:
    do not write to it.
    """
    borders = [task * units // tasks for task in range(tasks + 1)]
    ranges = [_cut(*ends, whole or tasks == 1) for ends in pairwise(borders)]
    most = max(map(len, ranges))
    return np.array([ends + ends[-1:] * (most - len(ends)) for ends in ranges], np.intp)


def _cut(start: int, end: int, whole: bool) -> list[int]:
    ends = [start]
    while ends[-1] < end:
        left = end - ends[-1]
        ends.append(end if whole else ends[-1] + max(1, left // SHARE))
    return ends


@njit(**PLAIN)
def untaken(tasks):
    """The counters of the pieces taken, all 0, for one call: a line for each task."""
    return np.zeros((tasks, _COUNTERS), np.intp)


@njit(**PLAIN)
def next_piece(ends, counters, task):
    """The units (from, to) of the next piece for a task; from = to where nothing is left.

    Pieces of its own range come first, then those of the following ranges.
    """
    tasks, count = ends.shape
    for further in range(tasks):
        owner = (task + further) % tasks
        piece = fetch_add(counters[owner])
        if piece + 1 < count and ends[owner, piece] < ends[owner, piece + 1]:
            return ends[owner, piece], ends[owner, piece + 1]
    return 0, 0

"""How threads share equal units of work: each has a range of its own, and when it is done, takes from others.

A thread's range is the same in every call, and that of whoever cuts work into equal ranges: what it has read
or written before is in caches and memory near it. A processor whose physical core also serves someone else is
slower than its neighbour for seconds, so ranges come in pieces that shrink: all threads end at about the same
time. Not so where results stay in the caches: a line that the other core has written is what costs most where
no cache lies between the two, and a few of them more than waiting for each other.
"""

from functools import cache
from itertools import pairwise

import numpy as np
from numba import njit
from numpy.typing import NDArray

from layernorm_backward.kernels.lane_memory import take
from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.kernels.numba_walk import PLAIN

UNITS = 64  # for work that can be cut anywhere
_COUNTERS = LINE // np.dtype(np.intp).itemsize  # in a line
SHARE = 2  # of what is left of a range, a piece is one part in so many


@cache
def pieces(units: int, tasks: int, whole: bool = False) -> NDArray[np.intp]:
    """Ends (tasks, n) of the pieces of each task's range, which lie behind each other from 0 to `units`.

    A piece is one SHARE of what is left of the range, at least a unit; behind the last of a range there may
    be empty ones. The range of a single task, and any if it is to be `whole`, is one piece. The array is
    that of all such calls.
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
    """The counters of pieces, none of which has been taken, for one call: a line for each task."""
    return np.zeros((tasks, _COUNTERS), np.intp)


@njit(**PLAIN)
def next_piece(ends, counters, task):
    """The units (from, to) of the next piece for a task; from = to where nothing is left.

    Pieces of its own range come first, then those of the ranges behind it.
    """
    tasks, count = ends.shape
    for further in range(tasks):
        owner = (task + further) % tasks
        piece = take(counters[owner])
        if piece + 1 < count and ends[owner, piece] < ends[owner, piece + 1]:
            return ends[owner, piece], ends[owner, piece + 1]
    return 0, 0

"""Reading a flat array with all threads: the least that a program does with a result."""

from collections.abc import Callable
from functools import cache

from numba import njit, prange

from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.kernels.numba_residency import read_lines
from layernorm_backward.kernels.numba_sharing import next_piece, untaken
from layernorm_backward.kernels.sources import checksum
from layernorm_backward.roofs.flat_streams import part_of


def _reads(sources):
    def reads(a, totals, pieces):
        _ = sources
        lanes = LINE // a.itemsize
        lines = a.size // lanes
        units = pieces[-1, -1]
        counters = untaken(len(pieces))
        for task in prange(len(pieces)):
            span = next_piece(pieces, counters, task)
            while span[0] < span[1]:
                start, end = part_of(span, units, lines, lanes)
                read_lines(a[start:end], totals[span[0] : span[1]])
                span = next_piece(pieces, counters, task)

    return reads


@cache
def reads() -> Callable[..., None]:
    """reads(a, totals, pieces), compiled at its first call for a dtype.

    a: (n,) as `lane_memory` stores it; its whole lines are shared as in `numba_sharing`. totals: one number
    for each unit; that of a piece's first unit becomes the sum of the piece.
    """
    return njit(parallel=True, cache=True)(_reads(checksum(part_of)))

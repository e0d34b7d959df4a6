"""A reading of a flat array over all cores: what a program does at least with a result that it was given."""

from collections.abc import Callable
from functools import cache

from numba import njit, prange

from layernorm_backward.kernels.lane_memory import take
from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.kernels.numba_reach import read_lines
from layernorm_backward.kernels.sources import checksum
from layernorm_backward.roofs.flat_streams import part_of


def _reads(sources):
    def reads(a, totals, threads, pieces, counter):
        _ = sources
        lanes = LINE // a.itemsize
        lines = a.size // lanes
        for _ in prange(threads):
            piece = take(counter)
            while piece + 1 < pieces.size:
                start, end = part_of(piece, pieces, lines, lanes)
                read_lines(a[start:end], totals[piece : piece + 1])
                piece = take(counter)

    return reads


@cache
def reads() -> Callable[..., None]:
    """reads(a, totals, threads, pieces, counter), compiled at its first call for a dtype.

    a (n,) as `lane_memory` stores it, whole lines of it cut as in `work_sharing`; totals, one number a piece,
    are the sums of its parts.
    """
    return njit(parallel=True, cache=True)(_reads(checksum()))

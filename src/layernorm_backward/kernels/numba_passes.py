"""The compiled passes of numba_fused: pieces of rows on threads, then the sum over all chunks.

A thread takes one piece of neighbouring chunks after the other, as in `numba_sharing`; a single task runs
without other threads. The code is compiled for each storage dtype and way to work on rows, and kept in
Numba's cache.

Numba compiles a function anew for each set of argument types, and a literal 0 and the index of a prange have
types of their own. Both are cast to int64, so that the loops over rows are compiled once, not twice.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
from numba import float32, float64, int16, int64, njit, prange, types, uint16

from layernorm_backward.kernels.lane_memory import elements
from layernorm_backward.kernels.lanes import zeros
from layernorm_backward.kernels.numba_chunks import (
    add_chunks,
    backward_pieces,
    backward_serial,
    copy_total,
    forward_pieces,
    forward_serial,
)
from layernorm_backward.kernels.numba_disjoint import disjoint, extent
from layernorm_backward.kernels.numba_scratch import cut_backward, cut_forward
from layernorm_backward.kernels.numba_sharing import untaken
from layernorm_backward.kernels.numba_walk import PLAIN
from layernorm_backward.kernels.sources import checksum, named

_TILE = 512  # columns of partial sums that a thread adds
_FEW = 1 << 16  # partial sums: one thread adds fewer before others would have started


def _backward(sources, group, ragged, widened, lag, recentre):
    lag, widened = lag if group == 2 else None, widened if group == 1 else None

    def backward(dy, x, mean, rstd, gamma, dx, dgamma, dbeta, held, numbers, pieces):
        _ = sources
        taken = extent(dy), extent(x), extent(mean), extent(rstd), extent(gamma)
        if not disjoint((extent(dx), extent(dgamma), extent(dbeta)), taken):
            return False
        hidden = numbers[1]
        if gamma.size != numbers[0] or mean.size * hidden != x.size or rstd.size != mean.size:
            return False
        vector, sums, levels, parts, copies = cut_backward(held, numbers[8:], gamma)
        rows = dy, x, mean, rstd, vector, dx
        how = numbers[6], hidden, numbers[2], numbers[3], numbers[4], numbers[5], numbers[7]
        like = zeros(x, group)
        tasks, scratch = len(pieces), (sums, levels, parts, copies)
        if tasks == 1:
            backward_serial(rows, scratch, how, widened, ragged, lag, recentre, like)
        else:
            work = pieces, untaken(tasks)
            for task in prange(tasks):
                backward_pieces(int64(task), work, rows, scratch, how, widened, ragged, lag, recentre, like)
        columns = sums.shape[1]
        if tasks == 1 or sums.size < _FEW:
            add_chunks(elements(sums), sums.shape, int64(0), columns, zeros(x, 1))
        else:
            for tile in prange((columns + _TILE - 1) // _TILE):
                right = min((tile + 1) * _TILE, columns)
                add_chunks(elements(sums), sums.shape, tile * _TILE, right, zeros(x, 1))
        copy_total(sums, dgamma, dbeta)
        return True

    return backward


def _forward(sources, group, ragged, widened, lag):
    lag, widened = lag if group > 1 else None, widened if group == 1 else None

    def forward(x, gamma, beta, eps, y, mean, rstd, held, numbers, pieces):
        _ = sources
        if not disjoint((extent(y),), (extent(x), extent(gamma), extent(beta))):
            return False
        least = mean.dtype.type(eps)
        if gamma.size != numbers[0] or beta.size != gamma.size or not 0 < least < np.inf:
            return False
        wide_gamma, wide_beta, kept = cut_forward(held, numbers[6:], gamma, beta)
        rows = x, wide_gamma, wide_beta, least, y, mean, rstd
        how = numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]
        like = zeros(x, group)
        tasks = len(pieces)
        if tasks == 1:
            forward_serial(rows, kept, how, widened, ragged, lag, like)
        else:
            work = pieces, untaken(tasks)
            for task in prange(tasks):
                forward_pieces(int64(task), work, rows, kept, how, widened, ragged, lag, like)
        return True

    return forward


_STORED = {"float64": float64, "float32": float32, "float16": int16, "bfloat16": uint16}


@cache
def forward_pass(
    dtype: str, group: int, ragged: bool, widened: bool = False, lag: bool = False
) -> Callable[..., bool]:
    """forward(x, gamma, beta, eps, y, mean, rstd, held, numbers, pieces), compiled.

    It is compiled for a storage dtype, for 1, 2 or 4 rows in a group, and for rows with (ragged) or without a
    remainder line. widened: single rows are buffered between their sweeps, see `numba_forward`; `held` then
    has room for them. lag: each row of a group is a line behind the one before it, see `numba_lag_forward`;
    rows need at least 2*LEAD lines. Later processes load the code from Numba's cache, which is beside this
    file, or in the user's cache folder where that is read-only.

    x, y: (N*D,) as `lane_memory` stores them. mean, rstd (N,), gamma, beta and the scratch `held`: in the
    dtype of the sums, gamma and beta ordered as by `lane_memory.in_lanes`. numbers: elements of gamma,
    hidden, ahead, spread, pages and first, then the layout of `held`, see `numba_scratch`. pieces: see
    `numba_sharing`. Returns False, and has written nothing, where y overlaps an input, the length of gamma or
    beta is another, or eps is not finite and > 0 in the dtype of the sums.

    The arguments are few, since Numba takes 0.1 us or more for each, and twice that for a read-only array.
    It raises TypeError for other dtypes and for arrays that are not contiguous.
    """
    stored, wide = _STORED[dtype], _of_sums(dtype)
    flat, vector, row = _array(stored, readonly=True), _array(wide, readonly=True), _array(wide)
    given = flat, vector, vector, float64, _array(stored), row, row, row, *_SHARED
    way = group, ragged or None, widened or None, lag or None
    return _compile(types.boolean(*given), named(_forward(checksum(), *way), dtype, *way))


@cache
def backward_pass(
    dtype: str,
    group: int,
    ragged: bool,
    widened: bool = False,
    lag: bool = False,
    recentre: bool = True,
) -> Callable[..., bool]:
    """backward(dy, x, mean, rstd, gamma, dx, dgamma, dbeta, held, numbers, pieces), compiled.

    As `forward_pass`, with dy and dx as x and y there, dgamma and dbeta as gamma. numbers: elements of gamma,
    hidden, ahead, spread, pages, first, block and stretch, then the layout. Also False where mean or rstd
    does not have one number a row. Ragged rows are worked on one by one. widened: see `numba_backward`. lag:
    of pairs of rows, see `numba_lag_backward`.
    """
    stored, wide = _STORED[dtype], _of_sums(dtype)
    flat, vector, row = _array(stored, readonly=True), _array(wide, readonly=True), _array(wide)
    given = flat, flat, vector, vector, vector, _array(stored), row, row, row, *_SHARED
    way = group, ragged or None, widened or None, lag or None, recentre or None
    return _compile(types.boolean(*given), named(_backward(checksum(), *way), dtype, *way))


def _of_sums(dtype):
    return float64 if dtype == "float64" else float32


def _array(number, ndim=1, readonly=False):
    return types.Array(number, ndim, "C", readonly=readonly)


_INTS = _array(types.intp, readonly=True)
_SHARED = _INTS, _array(types.intp, 2, readonly=True)


def _compile(signature, function):
    return njit(signature, parallel=True, cache=True, **PLAIN)(function)

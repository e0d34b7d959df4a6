"""The compiled passes of numba_fused: pieces of rows on threads, then the sums of all chunks in one.

A thread takes one piece of neighbouring chunks after the other, as in `numba_sharing`. The code is compiled
for each storage dtype and way to work on rows, and kept in Numba's cache.
"""

from collections.abc import Callable
from functools import cache

from numba import float32, float64, int16, njit, prange, types, uint16

from layernorm_backward.kernels.lane_memory import elements
from layernorm_backward.kernels.lanes import by_parity, zeros1, zeros2, zeros4
from layernorm_backward.kernels.numba_chunks import add_chunks, backward_task, copy_total, forward_task
from layernorm_backward.kernels.numba_disjoint import disjoint, extent
from layernorm_backward.kernels.numba_scratch import cut_backward, cut_forward, part_row
from layernorm_backward.kernels.numba_sharing import next_piece, untaken
from layernorm_backward.kernels.numba_walk import PLAIN
from layernorm_backward.kernels.sources import checksum

_TILE = 512  # columns of partial sums that a thread adds
_FEW = 1 << 16  # partial sums that one thread adds sooner than others begin


def _backward(sources, group, ragged, widened, lag):
    def backward(
        dy,
        x,
        mean,
        rstd,
        gamma,
        dx,
        dgamma,
        dbeta,
        held,
        places,
        pieces,
        block,
        hidden,
        ahead,
        spread,
        first,
        stretch,
        recentre,
    ):
        _ = sources
        taken = extent(dy), extent(x), extent(mean), extent(rstd), extent(gamma)
        if not disjoint((extent(dx), extent(dgamma), extent(dbeta)), taken):
            return False
        vector, sums, levels, parts, copies = cut_backward(held, places, gamma)
        rows, how = (dy, x, mean, rstd, vector, dx), (block, hidden, ahead, spread, first, stretch)
        counters = untaken(len(pieces))
        for task in prange(len(pieces)):
            one, span = by_parity(zeros1(x)), next_piece(pieces, counters, task)
            while span[0] < span[1]:
                given = rows, sums, span, levels[task], parts[task], copies[task], how
                if group == 4:
                    backward_task(*given, None, ragged, None, recentre, by_parity(zeros4(x)), one)
                elif group == 2:
                    backward_task(*given, None, ragged, lag, recentre, by_parity(zeros2(x)), one)
                elif widened:
                    z = elements(part_row(parts[task], 2, 4, vector.size))
                    d = elements(part_row(parts[task], 3, 4, vector.size))
                    backward_task(*given, (z, d), ragged, None, recentre, one, one)
                else:
                    backward_task(*given, None, ragged, None, recentre, one, one)
                span = next_piece(pieces, counters, task)
        columns = sums.shape[1]
        if sums.size < _FEW:
            add_chunks(elements(sums), sums.shape, 0, columns, zeros1(x))
        else:
            for tile in prange((columns + _TILE - 1) // _TILE):
                right = min((tile + 1) * _TILE, columns)
                add_chunks(elements(sums), sums.shape, tile * _TILE, right, zeros1(x))
        copy_total(sums, dgamma, dbeta)
        return True

    return backward


def _forward(sources, group, ragged, lag):
    def forward(
        x,
        gamma,
        beta,
        eps,
        y,
        mean,
        rstd,
        held,
        places,
        pieces,
        hidden,
        ahead,
        spread,
        first,
    ):
        _ = sources
        if not disjoint((extent(y),), (extent(x), extent(gamma), extent(beta))):
            return False
        vectors, units = cut_forward(held, places, gamma, beta), pieces[-1, -1]
        how = hidden, ahead, spread, first
        rows = x, *vectors, eps, y, mean, rstd
        counters = untaken(len(pieces))
        for task in prange(len(pieces)):
            one, span = by_parity(zeros1(x)), next_piece(pieces, counters, task)
            while span[0] < span[1]:
                i, end = span[0] * mean.size // units, span[1] * mean.size // units
                if group == 4:
                    forward_task(rows, i, end, how, ragged, lag, by_parity(zeros4(x)), one)
                elif group == 2:
                    forward_task(rows, i, end, how, ragged, lag, by_parity(zeros2(x)), one)
                else:
                    forward_task(rows, i, end, how, ragged, None, one, one)
                span = next_piece(pieces, counters, task)
        return True

    return forward


_STORED = {"float64": float64, "float32": float32, "float16": int16, "bfloat16": uint16}


@cache
def forward_pass(dtype: str, group: int, ragged: bool, lag: bool = False) -> Callable[..., None]:
    """forward(x, gamma, beta, eps, y, mean, rstd, held, places, pieces, hidden, ahead,
    spread, first), compiled.

    The code is that for a storage dtype, for 1, 2 or 4 rows in a group, and for rows with or without parts of
    lines. Later processes load it from Numba's cache. It lies beside this file, or in the user's cache folder
    where that cannot be written.

    x, y (N*D,) as `lane_memory` stores them; mean, rstd (N,), gamma, beta (D,) in the dtype of the sums, and
    so is the scratch `held`, with `places` as in `numba_scratch`; gamma and beta as `lane_memory.in_lanes`
    has them. pieces as in `numba_sharing`.
    """
    stored, wide = _STORED[dtype], _of_sums(dtype)
    flat, vector, row = _array(stored, readonly=True), _array(wide, readonly=True), _array(wide)
    given = flat, vector, vector, wide, _array(stored), row, row, row, *_SHARED, *[types.intp] * 4
    return _compile(types.boolean(*given), _forward(checksum(), group, ragged or None, lag or None))


@cache
def backward_pass(
    dtype: str,
    group: int,
    ragged: bool,
    widened: bool = False,
    lag: bool = False,
    recentre: bool = True,
) -> Callable[..., None]:
    """backward(dy, x, mean, rstd, gamma, dx, dgamma, dbeta, held, places, pieces, block,
    hidden, ahead, spread, first, stretch, recentre), compiled; see `forward_pass`.

    dy, dx are as x and y there, dgamma and dbeta as gamma. recentre is True or None. Rows with parts of lines
    go one by one. widened: single rows are kept as they are summed, see `numba_backward`; `held` has room for
    them then. lag: pairs of rows of 2*LEAD lines or more are kept apart, see `numba_lag_backward`.
    """
    stored, wide = _STORED[dtype], _of_sums(dtype)
    flat, vector, row = _array(stored, readonly=True), _array(wide, readonly=True), _array(wide)
    given = flat, flat, vector, vector, vector, _array(stored), row, row, row, *_SHARED, *[types.intp] * 6
    kind = types.boolean if recentre else types.none
    return _compile(
        types.boolean(*given, kind), _backward(checksum(), group, ragged or None, widened, lag or None)
    )


def _of_sums(dtype):
    return float64 if dtype == "float64" else float32


def _array(number, ndim=1, readonly=False):
    return types.Array(number, ndim, "C", readonly=readonly)


_INTS = _array(types.intp, readonly=True)
_SHARED = _INTS, _array(types.intp, 2, readonly=True)


def _compile(signature, function):
    return njit(signature, parallel=True, cache=True, **PLAIN)(function)

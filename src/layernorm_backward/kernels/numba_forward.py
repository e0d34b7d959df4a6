"""The forward arithmetic of numba_fused: a group of rows at a time, the sweeps of two groups in one loop.

It is a shifted one-sweep variance. The shift s, the mean of the row's first line, replaces the unknown mean:

    z = x - s     delta = mean(z)     var = mean(z**2) - delta**2     x_hat = z * rstd - delta * rstd

Where s is more than a standard deviation from the mean, the sums are taken again about s + delta. Sweeps,
sums and padded vectors are as in `numba_backward`. widened: None, or a buffer (D,) in whole lines, in the
dtype of the sums, that holds z of the row read last for its second sweep; as there, for single rows only.
"""

from numba import njit

from layernorm_backward.kernels.lane_memory import align_stack, line, load, put
from layernorm_backward.kernels.lanes import (
    any_greater,
    broadcast,
    fma,
    fold,
    full,
    select_greater,
    sqrt,
    totals,
    width,
)
from layernorm_backward.kernels.numba_forward_lines import moment, normalized, shifted
from layernorm_backward.kernels.numba_lag_forward import lagging_sweeps, moments_ahead
from layernorm_backward.kernels.numba_ring import write
from layernorm_backward.kernels.numba_walk import BLOCK, INLINE, PLAIN, prefetch_rows


@njit(**INLINE)
def first_shift(x, i, hidden, like):
    """The mean of the first line of each row of the group at row i; its first element where D is shorter."""
    if hidden >= width(like):
        return totals(load(x, i * hidden, hidden, None, like) * full(1 / width(like), like))
    return totals(load(x, i * hidden, hidden, 1, like))


@njit(**PLAIN)
def forward_sums(rows, widened, i, hidden, shift, like):
    """The shift of the group at row i, and its sums of z and z**2."""
    align_stack()
    x, centre = rows[0], broadcast(shift, like)
    lanes, at, zero = width(like), i * hidden, fold(like)
    sums = (zero, zero)
    for start in range(0, hidden, BLOCK * lanes):
        block = (zero, zero)
        end = min(hidden, start + BLOCK * lanes)
        for j in range(start, end - lanes + 1, lanes):
            block = moment(x, widened, (at + j, hidden, j), None, centre, block)
        if end % lanes:
            whole = end - end % lanes
            block = moment(x, widened, (at + whole, hidden, whole), end % lanes, centre, block)
        sums = (sums[0] + block[0], sums[1] + block[1])
    return shift, sums[0], sums[1]


@njit(**INLINE)
def _delta_and_variance(state, share):
    delta = totals(state[1]) * share
    return delta, fma(totals(state[2]), share, -delta * delta)


@njit(**INLINE)
def _statistics(rows, widened, i, hidden, state, like):
    """(shift, rstd, offset) of each row of the group at row i; writes its mean and rstd."""
    eps, mean, rstd = rows[3], rows[5], rows[6]
    shift = state[0]
    share, none = full(1 / hidden, shift), full(0, shift)
    delta, var = _delta_and_variance(state, share)
    if any_greater(delta * delta, var):
        shift = select_greater(delta * delta, var, shift + delta, shift)
        delta, var = _delta_and_variance(forward_sums(rows, widened, i, hidden, shift, like), share)
    var = select_greater(none - var, none, none, var)
    scale = full(1.0, shift) / sqrt(var + full(eps, shift))
    put(shift + delta, mean, i)
    put(scale, rstd, i)
    return shift, scale, -delta * scale


@njit(**INLINE)
def _both_sweeps(rows, widened, at, then, row, centre, walk, streamed, ring, ragged, like):
    """y of the group at element `at`, and the sums of that at `then`; short rows as in `numba_backward`."""
    hidden, most, zero = walk[0], BLOCK * width(like), fold(full(0, like))
    given, how = (rows, widened, at, then, row, centre, walk), (streamed, ring, ragged, like)
    if ragged is None and hidden <= most:
        return _block(*given, 0, hidden, *how)
    sums = (zero, zero)
    for start in range(0, hidden, most):
        block = _block(*given, start, min(hidden, start + most), *how)
        sums = (sums[0] + block[0], sums[1] + block[1])
    return sums


@njit(**INLINE)
def _block(rows, widened, at, then, row, centre, walk, start, end, streamed, ring, ragged, like):
    """Columns `start` to `end` of both sweeps."""
    x, gamma, beta, _, y, _, _ = rows
    hidden, schedule = walk
    lanes, zero = width(like), fold(full(0, like))
    block = (zero, zero)
    whole = end if ragged is None else end - end % lanes
    for j in range(start, whole, lanes):
        prefetch_rows(x, 0, then, j, hidden, schedule, streamed, like)
        if widened is not None:
            z = line(widened, j, like)
        block = moment(x, widened, (then + j, hidden, j), None, centre, block)
        if widened is None:
            z = shifted(x, (at + j, hidden, j), None, row)
        values = normalized(z, gamma, beta, j, None, row)
        write(values, y, at + j, hidden, None, streamed, ring)
    if ragged is not None and whole < end:
        count = end - whole
        prefetch_rows(x, 0, then, whole, hidden, schedule, streamed, like)
        z = shifted(x, (at + whole, hidden, whole), count, row)
        block = moment(x, widened, (then + whole, hidden, whole), count, centre, block)
        values = normalized(z, gamma, beta, whole, None, row)
        write(values, y, at + whole, hidden, count, streamed, ring)
    return block


@njit(**INLINE)
def first_moments(rows, widened, i, following, hidden, lag, like):
    """What `forward_group` at row i needs: shift, sums and, if it lags, the following group's first sums."""
    shift, after = first_shift(rows[0], i, hidden, like), first_shift(rows[0], following, hidden, like)
    sums = forward_sums(rows, widened, i, hidden, shift, like)
    if lag is None:
        return sums, sums
    first, second = moments_ahead(rows, following, hidden, after, like)
    return sums, (after, first, second)


@njit(**INLINE)
def forward_group(rows, widened, i, known, hidden, schedule, ring, ragged, lag, like, one):
    """y, mean and rstd of the group at row i[0]; returns `first_moments` for those at rows i[1] and i[2].

    rows are x, gamma, beta, eps, y, mean, rstd.
    """
    at, then, walk = i[0] * hidden, i[1] * hidden, (hidden, schedule)
    own = _statistics(rows, widened, i[0], hidden, known[0], like)
    if lag is not None:
        shift, after, places = (
            known[1][0],
            first_shift(rows[0], i[2], hidden, like),
            (at, then, i[2] * hidden),
        )
        given, how = (rows, places, own, (shift, after), known[1][1:], walk), (like, one)
        if ring[1] < 0:
            sums, ahead = lagging_sweeps(*given, False, *how)
        else:
            sums, ahead = lagging_sweeps(*given, True, *how)
        return (shift, *sums), (after, *ahead)
    shift = first_shift(rows[0], i[1], hidden, like)
    row = broadcast(own[0], like), broadcast(own[1], like), broadcast(own[2], like)
    given, how = (rows, widened, at, then, row, broadcast(shift, like), walk), (ragged, like)
    if ring[1] < 0:
        sums = _both_sweeps(*given, False, None, *how)
    elif ragged is None:
        sums = _both_sweeps(*given, True, None, *how)
    else:
        sums = _both_sweeps(*given, True, ring, *how)
    return (shift, *sums), known[1]

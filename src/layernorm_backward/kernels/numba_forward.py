"""The forward arithmetic of numba_fused: a group of rows at a time, the sweeps of two groups in one loop.

About a shift s (the mean of the row's first line), which stands in for the mean until it is known:

    z = x - s     delta = mean(z)     var = mean(z**2) - delta**2     x_hat = z * rstd - delta * rstd

Where the shift is more than a standard deviation off, the row is swept again about s + delta. Sweeps, sums
and padded vectors are as in `numba_backward`.
"""

from numba import njit

from layernorm_backward.kernels.lane_memory import (
    align_stack,
    line,
    load,
    put_numbers,
)
from layernorm_backward.kernels.lanes import (
    across,
    add_folded_products,
    choose,
    exceeds,
    fma,
    fold,
    keep,
    repeat,
    root,
    spread,
    totals,
    width,
)
from layernorm_backward.kernels.numba_ring import write
from layernorm_backward.kernels.numba_walk import BLOCK, INLINE, PLAIN, ask


@njit(**INLINE)
def _moment(x, at, j, hidden, count, shift, sums):
    """Add line j of a group to its sums of z and z**2."""
    z = keep(load(x, at + j, hidden, count, shift) - shift, count)
    return sums[0] + fold(z), add_folded_products(sums[1], z, z)


@njit(**INLINE)
def _normalized(rows, at, j, hidden, count, row):
    """Line j of a group's y."""
    x, gamma, beta = rows[:3]
    shift, rstd, offset = row
    x_hat = fma(load(x, at + j, hidden, count, shift) - shift, rstd, offset)
    return fma(repeat(line(gamma, j, shift), shift), x_hat, repeat(line(beta, j, shift), shift))


@njit(**INLINE)
def first_shift(x, i, hidden, like):
    """The mean of the first line of each row of the group at row i; its first element where D is shorter."""
    if hidden >= width(like):
        return totals(load(x, i * hidden, hidden, None, like) * spread(1 / width(like), like))
    return totals(load(x, i * hidden, hidden, 1, like))


@njit(**PLAIN)
def forward_sums(rows, i, hidden, shift, like):
    """The shift of the group at row i, and its sums of z and z**2."""
    align_stack()
    x, centre = rows[0], across(shift, like)
    lanes, at, zero = width(like), i * hidden, fold(like)
    sums = (zero, zero)
    for start in range(0, hidden, BLOCK * lanes):
        block = (zero, zero)
        end = min(hidden, start + BLOCK * lanes)
        for j in range(start, end - lanes + 1, lanes):
            block = _moment(x, at, j, hidden, None, centre, block)
        if end % lanes:
            block = _moment(x, at, end - end % lanes, hidden, end % lanes, centre, block)
        sums = (sums[0] + block[0], sums[1] + block[1])
    return shift, sums[0], sums[1]


@njit(**INLINE)
def _delta_and_variance(state, share):
    delta = totals(state[1]) * share
    return delta, fma(totals(state[2]), share, -delta * delta)


@njit(**INLINE)
def _statistics(rows, i, hidden, state, like):
    """shift, delta and rstd of the group at row i, in all lanes of a row; its mean and rstd are written."""
    eps, mean, rstd = rows[3], rows[5], rows[6]
    shift = state[0]
    share, none = spread(1 / hidden, shift), spread(0, shift)
    delta, var = _delta_and_variance(state, share)
    if exceeds(delta * delta, var):
        shift = choose(delta * delta, var, shift + delta, shift)
        delta, var = _delta_and_variance(forward_sums(rows, i, hidden, shift, like), share)
    var = choose(none - var, none, none, var)
    scale = spread(1.0, shift) / root(var + spread(eps, shift))
    put_numbers(shift + delta, mean, i)
    put_numbers(scale, rstd, i)
    return across(shift, like), across(scale, like), across(-delta * scale, like)


@njit(**INLINE)
def _both_sweeps(rows, at, then, row, centre, walk, streamed, ring, ragged, like):
    """y of the group at element `at`, and the sums of that at `then`."""
    x, y = rows[0], rows[4]
    hidden, early = walk
    lanes, zero = width(like), fold(spread(0, like))
    sums = (zero, zero)
    for start in range(0, hidden, BLOCK * lanes):
        block = (zero, zero)
        end = min(hidden, start + BLOCK * lanes)
        whole = end if ragged is None else end - end % lanes
        for j in range(start, whole, lanes):
            ask(x, 0, then, j, hidden, early, like)
            block = _moment(x, then, j, hidden, None, centre, block)
            write(_normalized(rows, at, j, hidden, None, row), y, at + j, hidden, None, streamed, ring)
        if ragged is not None and whole < end:
            count = end - whole
            block = _moment(x, then, whole, hidden, count, centre, block)
            last = _normalized(rows, at, whole, hidden, count, row)
            write(last, y, at + whole, hidden, count, streamed, ring)
        sums = (sums[0] + block[0], sums[1] + block[1])
    return sums


@njit(**INLINE)
def forward_group(rows, i, following, state, hidden, early, ring, ragged, like):
    """y, mean and rstd of the group at row i, whose shift and sums are its state; returns `following`'s.

    rows are x, gamma, beta, eps, y, mean, rstd.
    """
    at, then = i * hidden, following * hidden
    row = _statistics(rows, i, hidden, state, like)
    shift = first_shift(rows[0], following, hidden, like)
    known, how = (at, then, row, across(shift, like), (hidden, early)), (ragged, like)
    if ring[1] < 0:
        sums = _both_sweeps(rows, *known, False, None, *how)
    elif ragged is None:
        sums = _both_sweeps(rows, *known, True, None, *how)
    else:
        sums = _both_sweeps(rows, *known, True, ring, *how)
    return shift, sums[0], sums[1]

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
    store,
    stream,
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
from layernorm_backward.kernels.numba_walk import (
    BLOCK,
    INLINE,
    PLAIN,
    ask,
    put_head,
    put_rest,
    put_tail,
    whole_lines,
)


@njit(**INLINE)
def _moment(x, at, j, hidden, count, shift, sums):
    """Add line j of a group to its sums of z and z**2."""
    z = keep(load(x, at + j, hidden, count, shift) - shift, count)
    return sums[0] + fold(z), add_folded_products(sums[1], z, z)


@njit(**INLINE)
def _normalized(given, at, j, hidden, count):
    """Line j of a group's y."""
    x, gamma, beta, row = given
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
def _both_sweeps(rows, at, then, row, centre, walk, late, streamed, ragged, like):
    """y of the group at element `at`, in whole lines, and the sums of that at element `then`."""
    x, gamma, beta, _, y, _, _ = rows
    hidden, early = walk
    lanes, zero, given = width(like), fold(spread(0, like)), (x, gamma, beta, row)
    sums = (zero, zero)
    for start in range(0, hidden, BLOCK * lanes):
        block = (zero, zero)
        end = min(hidden, start + BLOCK * lanes)
        whole = end if ragged is None else end - end % lanes
        for j in range(start, whole, lanes):
            ask(x, 0, then, j, hidden, early, like)
            block = _moment(x, then, j, hidden, None, centre, block)
            if late is not None:
                if j > 0:
                    result = _normalized(given, at, j - late, hidden, None)
                    stream(result, y, at + j - late, hidden)
            elif streamed:
                stream(_normalized(given, at, j, hidden, None), y, at + j, hidden)
            else:
                store(_normalized(given, at, j, hidden, None), y, at + j, hidden, None)
        if ragged is not None and whole < end:
            block = _moment(x, then, whole, hidden, end - whole, centre, block)
        sums = (sums[0] + block[0], sums[1] + block[1])
    return sums


@njit(**INLINE)
def forward_group(rows, i, following, state, hidden, early, target, ragged, like):
    """y, mean and rstd of the group at row i, whose shift and sums are its state; returns `following`'s.

    rows are x, gamma, beta, eps, y, mean, rstd; target as in `numba_backward`.
    """
    x, gamma, beta, _, y, _, _ = rows
    first, seam, begin = target
    at, then, lanes = i * hidden, following * hidden, width(like)
    row = _statistics(rows, i, hidden, state, like)
    shift = first_shift(x, following, hidden, like)
    walk, centre = (hidden, early), across(shift, like)
    if ragged is None:
        if first < 0:
            sums = _both_sweeps(rows, at, then, row, centre, walk, None, False, ragged, like)
        else:
            sums = _both_sweeps(rows, at, then, row, centre, walk, None, True, ragged, like)
        return shift, sums[0], sums[1]
    given, ends = (x, gamma, beta, row), whole_lines(first, at, hidden, lanes)
    if first < 0:
        sums = _both_sweeps(rows, at, then, row, centre, walk, None, False, ragged, like)
        put_tail(_normalized, given, y, at, ends[1], hidden, seam, False)
    else:
        shared = begin < i and hidden >= lanes, i < following and hidden >= lanes
        put_head(_normalized, given, y, at, ends[0], hidden, seam, shared[0])
        sums = _both_sweeps(rows, at, then, row, centre, walk, lanes - ends[0], True, ragged, like)
        put_rest(_normalized, given, y, at, ends, hidden, seam, shared, like)
    return shift, sums[0], sums[1]

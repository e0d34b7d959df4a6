"""The forward arithmetic of numba_fused: a group of rows at a time, the sweeps of two groups in one loop.

About a shift s (the mean of the row's first line), which stands in for the mean until it is known:

    z = x - s     delta = mean(z)     var = mean(z**2) - delta**2     x_hat = z * rstd - delta * rstd

Where the shift is more than a standard deviation off, the row is swept again about s + delta. Sweeps, sums
and padded vectors are as in `numba_backward`. `widened` is None, or a row of numbers of the sums, (D,) in
whole lines, in which z of the row read last is kept for its second sweep; as there, of single rows only.
"""

from numba import njit

from layernorm_backward.kernels.lane_memory import align_stack, line, load, put
from layernorm_backward.kernels.lanes import across, choose, exceeds, fma, fold, root, spread, totals, width
from layernorm_backward.kernels.numba_forward_lines import moment, normalized, shifted
from layernorm_backward.kernels.numba_lag_forward import lagging_sweeps, moments_ahead
from layernorm_backward.kernels.numba_ring import write
from layernorm_backward.kernels.numba_walk import BLOCK, INLINE, PLAIN, ask


@njit(**INLINE)
def first_shift(x, i, hidden, like):
    """The mean of the first line of each row of the group at row i; its first element where D is shorter."""
    if hidden >= width(like):
        return totals(load(x, i * hidden, hidden, None, like) * spread(1 / width(like), like))
    return totals(load(x, i * hidden, hidden, 1, like))


@njit(**PLAIN)
def forward_sums(rows, widened, i, hidden, shift, like):
    """The shift of the group at row i, and its sums of z and z**2."""
    align_stack()
    x, centre = rows[0], across(shift, like)
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
    """shift, rstd and offset of the group at row i, numbers; its mean and rstd are written."""
    eps, mean, rstd = rows[3], rows[5], rows[6]
    shift = state[0]
    share, none = spread(1 / hidden, shift), spread(0, shift)
    delta, var = _delta_and_variance(state, share)
    if exceeds(delta * delta, var):
        shift = choose(delta * delta, var, shift + delta, shift)
        delta, var = _delta_and_variance(forward_sums(rows, widened, i, hidden, shift, like), share)
    var = choose(none - var, none, none, var)
    scale = spread(1.0, shift) / root(var + spread(eps, shift))
    put(shift + delta, mean, i)
    put(scale, rstd, i)
    return shift, scale, -delta * scale


@njit(**INLINE)
def _both_sweeps(rows, widened, at, then, row, centre, walk, streamed, ring, ragged, like):
    """y of the group at element `at`, and the sums of that at `then`; short rows as in `numba_backward`."""
    hidden, most, zero = walk[0], BLOCK * width(like), fold(spread(0, like))
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
    hidden, early = walk
    lanes, zero = width(like), fold(spread(0, like))
    block = (zero, zero)
    whole = end if ragged is None else end - end % lanes
    for j in range(start, whole, lanes):
        ask(x, 0, then, j, hidden, early, streamed, like)
        if widened is not None:
            z = line(widened, j, like)
        block = moment(x, widened, (then + j, hidden, j), None, centre, block)
        if widened is None:
            z = shifted(x, (at + j, hidden, j), None, row)
        values = normalized(z, gamma, beta, j, None, row)
        write(values, y, at + j, hidden, None, streamed, ring)
    if ragged is not None and whole < end:
        count = end - whole
        ask(x, 0, then, whole, hidden, early, streamed, like)
        z = shifted(x, (at + whole, hidden, whole), count, row)
        block = moment(x, widened, (then + whole, hidden, whole), count, centre, block)
        values = normalized(z, gamma, beta, whole, None, row)
        write(values, y, at + whole, hidden, count, streamed, ring)
    return block


@njit(**INLINE)
def first_moments(rows, widened, i, following, hidden, lag, like):
    """What `forward_group` at row i has to know: its shift and sums, and those ahead of the group behind."""
    shift, after = first_shift(rows[0], i, hidden, like), first_shift(rows[0], following, hidden, like)
    sums = forward_sums(rows, widened, i, hidden, shift, like)
    if lag is None:
        return sums, sums
    first, second = moments_ahead(rows, following, hidden, after, like)
    return sums, (after, first, second)


@njit(**INLINE)
def forward_group(rows, widened, i, known, hidden, early, ring, ragged, lag, like, one):
    """y, mean and rstd of the group at row i[0]; what is known of those at i[1], i[2], as in `first_moments`.

    rows are x, gamma, beta, eps, y, mean, rstd.
    """
    at, then, walk = i[0] * hidden, i[1] * hidden, (hidden, early)
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
    row = across(own[0], like), across(own[1], like), across(own[2], like)
    given, how = (rows, widened, at, then, row, across(shift, like), walk), (ragged, like)
    if ring[1] < 0:
        sums = _both_sweeps(*given, False, None, *how)
    elif ragged is None:
        sums = _both_sweeps(*given, True, None, *how)
    else:
        sums = _both_sweeps(*given, True, ring, *how)
    return (shift, *sums), known[1]

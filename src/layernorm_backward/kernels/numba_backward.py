"""The backward arithmetic of numba_fused: a group of rows at a time, the sweeps of two groups in one loop.

It centres x about the rounded mean m by equation (14): z = x - m, delta = mean(z), sum(g*(z - delta)) =
sum(g*z) - delta*sum(g). So no error grows with mean/std, and re-centring needs no extra sweep. A row takes
two sweeps, one for its sums and one for its results. The second sweep of one group runs in the same loop as
the first of the next, so that memory is read and written all the time. Each iteration works on the next group
first: where a row has a multiple of 4096 bytes, its loads would otherwise wait for the stores of this group.
Where the sums and the coefficients do not fit into the registers together (`separate_loops`), the two sweeps
alternate in separate loops; where registers are few and x is cache-resident, one sweep follows the other.

widened: None, or two buffers (D,) in whole lines, in the dtype of the sums, that hold z and dy of the group
read last for its second sweep, which then need not widen 16-bit numbers again; for single rows only. lag:
True where a group is worked on as in `numba_lag_backward`, else None.

ragged: None where every row consists of whole lines and each begins at a line of the result, else True. gamma
is padded with zeros to whole lines. All arrays are passed as their `elements`; `part` holds the running sums
of dgamma and of dbeta, (D,) in whole lines or more. A row's lines, folded if x has 16 bits, are added in
blocks of BLOCK lines; then the lanes of the sum are added pairwise.
"""

from numba import njit

from layernorm_backward.kernels.lane_memory import align_stack, line, numbers
from layernorm_backward.kernels.lanes import broadcast, fma, fold, full, height, totals, width
from layernorm_backward.kernels.numba_backward_lines import centred, differentiate, normalized, project
from layernorm_backward.kernels.numba_lag_backward import lagging_sweeps, sums_ahead
from layernorm_backward.kernels.numba_walk import (
    BLOCK,
    FEW_REGISTERS,
    INLINE,
    PLAIN,
    prefetch_rows,
    separate_loops,
)


@njit(**PLAIN)
def backward_sums(rows, widened, i, hidden, recentre, like):
    """The sums of z, g and g*z of the group at row i; rows are dy, x, mean, rstd, gamma, dx."""
    align_stack()
    dy, x, mean, _, gamma, _ = rows
    lanes, at, centre = width(like), i * hidden, broadcast(numbers(mean, i, like), like)
    zero = fold(like)
    sums = (zero, zero, zero)
    for start in range(0, hidden, BLOCK * lanes):
        block = (zero, zero, zero)
        end = min(hidden, start + BLOCK * lanes)
        for j in range(start, end - lanes + 1, lanes):
            block = project(x, dy, gamma, widened, (at + j, hidden, j), None, None, centre, recentre, block)
        if end % lanes:
            whole, count = end - end % lanes, end % lanes
            place = (at + whole, hidden, whole)
            block = project(x, dy, gamma, widened, place, None, count, centre, recentre, block)
        sums = (sums[0] + block[0], sums[1] + block[1], sums[2] + block[2])
    return sums


@njit(**INLINE)
def _coefficients(sums, mean, rstd, i, hidden, recentre, like):
    """(mean, rstd, offset, slope, shift) of each row of the group at row i.

    With these, x_hat = z*rstd + offset and dx = rstd*(gamma*dy + shift + slope*x_hat). All results of the
    group depend on them, so two sums are multiplied by 1/D, which has less latency than a division by D. The
    sum of g is divided, so that the mean of equal numbers cancels them.
    """
    centre, scale = numbers(mean, i, like), numbers(rstd, i, like)
    share = full(1 / hidden, centre)
    sum_g = totals(sums[1])
    delta = full(0, centre) if recentre is None else totals(sums[0]) * share
    slope = fma(delta, sum_g, -totals(sums[2])) * (scale * share)
    return centre, scale, -delta * scale, slope, -sum_g / full(hidden, centre)


@njit(**INLINE)
def _both_sweeps(rows, part, widened, at, then, row, centre, walk, streamed, ring, ragged, recentre, like):
    """Results of the group at element `at`, and the sums of that at `then`.

    A single row of one block skips the loop over blocks, whose overhead matters on short rows.
    """
    hidden, most, zero = walk[0], BLOCK * width(like), fold(full(0, like))
    given, how = (rows, part, widened, at, then, row, centre, walk), (streamed, ring, ragged, recentre, like)
    if ragged is None and height(like) == 1 and hidden <= most:
        return _block(*given, 0, hidden, *how)
    sums = (zero, zero, zero)
    for start in range(0, hidden, most):
        block = _block(*given, start, min(hidden, start + most), *how)
        sums = (sums[0] + block[0], sums[1] + block[1], sums[2] + block[2])
    return sums


@njit(**INLINE)
def _block(
    rows, part, widened, at, then, row, centre, walk, start, end, streamed, ring, ragged, recentre, like
):
    """Columns `start` to `end` of both sweeps."""
    dy, x, _, _, gamma, dx = rows
    hidden, schedule = walk
    lanes, zero = width(like), fold(full(0, like))
    block = (zero, zero, zero)
    whole = end if ragged is None else end - end % lanes
    for j in range(start, whole, lanes):
        prefetch_rows(x, 0, then, j, hidden, schedule, streamed, like)
        prefetch_rows(dy, 1, then, j, hidden, schedule, streamed, like)
        if widened is not None:
            z, d = line(widened[0], j, like), line(widened[1], j, like)
        here, there = (at + j, hidden, j), (then + j, hidden, j)
        block = project(x, dy, gamma, widened, there, None, None, centre, recentre, block)
        if widened is not None:
            x_hat = normalized(z, row)
            differentiate(d, x_hat, gamma, dx, part, here, None, row, streamed, ring)
        elif not separate_loops(like):
            d, x_hat = centred(dy, x, here, None, row)
            differentiate(d, x_hat, gamma, dx, part, here, None, row, streamed, ring)
    if widened is None and separate_loops(like):
        for j in range(start, whole, lanes):
            here = at + j, hidden, j
            d, x_hat = centred(dy, x, here, None, row)
            differentiate(d, x_hat, gamma, dx, part, here, None, row, streamed, ring)
    if ragged is not None and whole < end:
        count = end - whole
        here, there = (at + whole, hidden, whole), (then + whole, hidden, whole)
        prefetch_rows(x, 0, then, whole, hidden, schedule, streamed, like)
        prefetch_rows(dy, 1, then, whole, hidden, schedule, streamed, like)
        d, x_hat = centred(dy, x, here, count, row)
        block = project(x, dy, gamma, widened, there, None, count, centre, recentre, block)
        differentiate(d, x_hat, gamma, dx, part, here, count, row, streamed, ring)
    return block


@njit(**INLINE)
def _results(rows, part, at, row, hidden, ragged, like):
    """Results of the group at element `at`, by ordinary stores."""
    dy, x, _, _, gamma, dx = rows
    lanes = width(like)
    whole = hidden if ragged is None else hidden - hidden % lanes
    for j in range(0, whole, lanes):
        here = at + j, hidden, j
        d, x_hat = centred(dy, x, here, None, row)
        differentiate(d, x_hat, gamma, dx, part, here, None, row, False, None)
    if ragged is not None and whole < hidden:
        here, count = (at + whole, hidden, whole), hidden - whole
        d, x_hat = centred(dy, x, here, count, row)
        differentiate(d, x_hat, gamma, dx, part, here, count, row, False, None)


@njit(**INLINE)
def first_sums(rows, widened, i, following, hidden, lag, recentre, like):
    """What `backward_group` at row i needs: the group's sums and, if it lags, the following group's first."""
    sums = backward_sums(rows, widened, i, hidden, recentre, like)
    if lag is None:
        return sums, sums
    return sums, sums_ahead(rows, following, hidden, recentre, like)


@njit(**INLINE)
def backward_group(rows, part, widened, i, known, hidden, schedule, ring, ragged, lag, recentre, like, one):
    """Results of the group at row i[0]; returns `first_sums` for the groups at rows i[1] and i[2]."""
    mean, rstd = rows[2:4]
    at, then, walk = i[0] * hidden, i[1] * hidden, (hidden, schedule)
    own, centre = _coefficients(known[0], mean, rstd, i[0], hidden, recentre, like), numbers(mean, i[1], like)
    if lag is not None:
        places, means = (at, then, i[2] * hidden), (centre, numbers(mean, i[2], like))
        given, how = (rows, part, places, own, means, known[1], walk), (recentre, like, one)
        if ring[1] < 0:
            return lagging_sweeps(*given, False, *how)
        return lagging_sweeps(*given, True, *how)
    row = (
        broadcast(own[0], like),
        broadcast(own[1], like),
        broadcast(own[2], like),
        broadcast(own[3], like),
        broadcast(own[4], like),
    )
    given, how = (rows, part, widened, at, then, row, broadcast(centre, like), walk), (ragged, recentre, like)
    if ring[1] < 0 and FEW_REGISTERS:
        _results(rows, part, at, row, hidden, ragged, like)
        sums = backward_sums(rows, widened, i[1], hidden, recentre, like)
    elif ring[1] < 0:
        sums = _both_sweeps(*given, False, None, *how)
    elif ragged is None:
        sums = _both_sweeps(*given, True, None, *how)
    else:
        sums = _both_sweeps(*given, True, ring, *how)
    return sums, known[1]

"""The backward arithmetic of numba_fused: a group of rows at a time, the sweeps of two groups in one loop.

About the rounded mean m, equation (14): z = x - m, delta = mean(z), sum(g*(z - delta)) = sum(g*z) -
delta*sum(g), so no error grows with mean/std, and re-centring takes no sweep of its own. A row needs two
sweeps, one for its sums and one for its results. The second of one group runs in one loop with the first of
the next, so that memory is read and written all the time. In a turn of that loop the next group comes first:
its loads would wait for the stores of this one, where a row has a multiple of 4096 bytes. Where the sums and
the coefficients do not fit into the registers together (`apart`), the two sweeps take turns in loops of their
own.

`widened` is None, or two rows of numbers of the sums, (E,) each, in which z and dy of the group read last are
kept for its second sweep: 16-bit ones would be widened again. Only single rows are kept so.

`ragged` is None where every row consists of whole lines, and begins with one of the result's, else True.
gamma is padded with zeros to whole lines. All arrays are given by their `elements`; `part` are those of the
running sums of dgamma and of dbeta, (E,) or more. A row's lines are added BLOCK at a time, 16-bit ones
folded; then the lanes of the sum are added in pairs.
"""

from numba import njit

from layernorm_backward.kernels.lane_memory import (
    align_stack,
    line,
    load,
    numbers,
    put_line,
)
from layernorm_backward.kernels.lanes import (
    across,
    add_folded_products,
    add_products,
    add_rows,
    fma,
    fold,
    keep,
    repeat,
    spread,
    totals,
    width,
)
from layernorm_backward.kernels.numba_ring import write
from layernorm_backward.kernels.numba_walk import BLOCK, INLINE, PLAIN, apart, ask


@njit(**INLINE)
def _project(x, dy, gamma, widened, at, j, hidden, count, mean, recentre, sums):
    """Add line j of a group to its sums of z, g and g*z."""
    z, d = keep(load(x, at + j, hidden, count, mean) - mean, count), load(dy, at + j, hidden, count, mean)
    if widened is not None:
        put_line(z, widened[0], j)
        put_line(d, widened[1], j)
    g = d * repeat(line(gamma, j, mean), mean)
    sum_z = sums[0] if recentre is None else sums[0] + fold(z)
    return sum_z, sums[1] + fold(g), add_folded_products(sums[2], g, z)


@njit(**INLINE)
def _centred(dy, x, at, j, hidden, count, row):
    """Line j of a group's dy and x_hat."""
    mean = row[0]
    d = load(dy, at + j, hidden, count, mean)
    return d, _normalized(load(x, at + j, hidden, count, mean) - mean, row)


@njit(**INLINE)
def _normalized(z, row):
    """x_hat of z, about the mean that is re-centred."""
    _, rstd, offset, _, _ = row
    return fma(z, rstd, offset)


@njit(**INLINE)
def _result(d, x_hat, gamma, j, row):
    """Line j of a group's dx."""
    mean, rstd, _, slope, shift = row
    g = repeat(line(gamma, j, mean), mean) * d  # rounded as in the sum that it is held against
    return rstd * fma(x_hat, slope, g + shift)


@njit(**INLINE)
def _add(d, x_hat, part, j, count):
    """Add line j of a group's dgamma and dbeta to `part`."""
    put_line(add_products(line(part[0], j, d), d, keep(x_hat, count)), part[0], j)
    put_line(add_rows(line(part[1], j, d), d), part[1], j)


@njit(**INLINE)
def _differentiate(d, x_hat, gamma, dx, part, at, j, hidden, count, row, streamed, ring):
    """Write line j of a group's dx, and add the line to dgamma and dbeta."""
    write(_result(d, x_hat, gamma, j, row), dx, at + j, hidden, count, streamed, ring)
    _add(d, x_hat, part, j, count)


@njit(**PLAIN)
def backward_sums(rows, widened, i, hidden, recentre, like):
    """The sums of z, g and g*z of the group at row i; rows are dy, x, mean, rstd, gamma, dx."""
    align_stack()
    dy, x, mean, _, gamma, _ = rows
    lanes, at, centre = width(like), i * hidden, across(numbers(mean, i, like), like)
    zero = fold(like)
    sums = (zero, zero, zero)
    for start in range(0, hidden, BLOCK * lanes):
        block = (zero, zero, zero)
        end = min(hidden, start + BLOCK * lanes)
        for j in range(start, end - lanes + 1, lanes):
            block = _project(x, dy, gamma, widened, at, j, hidden, None, centre, recentre, block)
        if end % lanes:
            whole, count = end - end % lanes, end % lanes
            block = _project(x, dy, gamma, widened, at, whole, hidden, count, centre, recentre, block)
        sums = (sums[0] + block[0], sums[1] + block[1], sums[2] + block[2])
    return sums


@njit(**INLINE)
def _coefficients(sums, mean, rstd, i, hidden, recentre, like):
    """What the results of the group at row i need, a number a row, in all of its lanes.

    With these, x_hat = z*rstd + offset and dx = rstd*(gamma*dy + shift + slope*x_hat). The next results wait
    for them: so two sums are multiplied by 1/D instead of divided by D. That of g is divided, since the mean
    of equal numbers is to cancel them.
    """
    centre, scale = numbers(mean, i, like), numbers(rstd, i, like)
    share = spread(1 / hidden, centre)
    sum_g = totals(sums[1])
    delta = spread(0, centre) if recentre is None else totals(sums[0]) * share
    slope = fma(delta, sum_g, -totals(sums[2])) * (scale * share)
    return (
        across(centre, like),
        across(scale, like),
        across(-delta * scale, like),
        across(slope, like),
        across(-sum_g / spread(hidden, centre), like),
    )


@njit(**INLINE)
def _both_sweeps(rows, part, widened, at, then, row, centre, walk, streamed, ring, ragged, recentre, like):
    """Results of the group at element `at`, and the sums of that at `then`."""
    dy, x, _, _, gamma, dx = rows
    hidden, early = walk
    lanes, zero = width(like), fold(spread(0, like))
    sums = (zero, zero, zero)
    for start in range(0, hidden, BLOCK * lanes):
        block = (zero, zero, zero)
        end = min(hidden, start + BLOCK * lanes)
        whole = end if ragged is None else end - end % lanes
        for j in range(start, whole, lanes):
            ask(x, 0, then, j, hidden, early, like)
            ask(dy, 1, then, j, hidden, early, like)
            if widened is not None:
                z, d = line(widened[0], j, like), line(widened[1], j, like)
            block = _project(x, dy, gamma, widened, then, j, hidden, None, centre, recentre, block)
            if widened is not None:
                x_hat = _normalized(z, row)
                _differentiate(d, x_hat, gamma, dx, part, at, j, hidden, None, row, streamed, ring)
            elif not apart(like):
                d, x_hat = _centred(dy, x, at, j, hidden, None, row)
                _differentiate(d, x_hat, gamma, dx, part, at, j, hidden, None, row, streamed, ring)
        if widened is None and apart(like):
            for j in range(start, whole, lanes):
                d, x_hat = _centred(dy, x, at, j, hidden, None, row)
                _differentiate(d, x_hat, gamma, dx, part, at, j, hidden, None, row, streamed, ring)
        if ragged is not None and whole < end:
            count = end - whole
            d, x_hat = _centred(dy, x, at, whole, hidden, count, row)
            block = _project(x, dy, gamma, widened, then, whole, hidden, count, centre, recentre, block)
            _differentiate(d, x_hat, gamma, dx, part, at, whole, hidden, count, row, streamed, ring)
        sums = (sums[0] + block[0], sums[1] + block[1], sums[2] + block[2])
    return sums


@njit(**INLINE)
def backward_group(rows, part, widened, i, following, sums, hidden, early, ring, ragged, recentre, like):
    """Results of the group at row i, whose sums are known; returns the sums of that at row `following`."""
    mean, rstd = rows[2:4]
    at, then = i * hidden, following * hidden
    row = _coefficients(sums, mean, rstd, i, hidden, recentre, like)
    centre = across(numbers(mean, following, like), like)
    known, how = (at, then, row, centre, (hidden, early)), (ragged, recentre, like)
    if ring[1] < 0:
        return _both_sweeps(rows, part, widened, *known, False, None, *how)
    if ragged is None:
        return _both_sweeps(rows, part, widened, *known, True, None, *how)
    return _both_sweeps(rows, part, widened, *known, True, ring, *how)

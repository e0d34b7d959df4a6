"""The backward arithmetic of numba_fused: a group of rows at a time, the sweeps of two groups in one loop.

About the rounded mean m, equation (14): z = x - m, delta = mean(z), sum(g*(z - delta)) = sum(g*z) -
delta*sum(g), so no error grows with mean/std, and re-centring takes no sweep of its own. A row needs two
sweeps, one for its sums and one for its results. The second of one group runs in one loop with the first of
the next, so that memory is read and written all the time. In a turn of that loop the next group comes first:
its loads would wait for the stores of this one, where a row has a multiple of 4096 bytes. Where the sums and
the coefficients do not fit into the registers together (`apart`), the two sweeps take turns in loops of their
own.

`ragged` is None where every row consists of whole lines, and begins with one of the result's, else True.
gamma is padded with zeros to whole lines, and by one more line where rows begin within a line. All arrays
are given by their `elements`; `part` are those of the running sums of dgamma and of dbeta, (E,) or more. A
row's sums are added in the lanes of a line, BLOCK lines at a time; lanes are added in pairs.
"""

from numba import njit

from layernorm_backward.kernels.lane_memory import (
    line,
    load,
    numbers,
    prefetch_to_write,
    put_line,
    store,
    stream,
)
from layernorm_backward.kernels.lanes import (
    across,
    add_products,
    add_rows,
    fma,
    keep,
    repeat,
    spread,
    totals,
    width,
)
from layernorm_backward.kernels.numba_walk import BLOCK, EARLY, INLINE, PLAIN, apart, ask, whole_lines


@njit(**INLINE)
def _project(x, dy, gamma, at, j, hidden, count, mean, recentre, sums):
    """Add line j of a group to its sums of z, g and g*z."""
    z = keep(load(x, at + j, hidden, count, mean) - mean, count)
    g = load(dy, at + j, hidden, count, mean) * repeat(line(gamma, j, mean), mean)
    sum_z = sums[0] if recentre is None else sums[0] + z
    return sum_z, sums[1] + g, fma(g, z, sums[2])


@njit(**INLINE)
def _differentiate(dy, x, gamma, dx, part, at, j, hidden, count, row, streamed):
    """Write line j of a group's dx, and add its dgamma and dbeta to `part`."""
    mean, rstd, offset, slope, shift = row
    d = load(dy, at + j, hidden, count, mean)
    x_hat = fma(load(x, at + j, hidden, count, mean) - mean, rstd, offset)
    g = repeat(line(gamma, j, mean), mean) * d  # rounded as in the sum that it is held against
    result = rstd * fma(x_hat, slope, g + shift)
    if streamed:
        stream(result, dx, at + j, hidden)
    else:
        store(result, dx, at + j, hidden, count)
    put_line(add_products(line(part[0], j, mean), d, keep(x_hat, count)), part[0], j)
    put_line(add_rows(line(part[1], j, mean), d), part[1], j)


@njit(**PLAIN)
def backward_sums(rows, i, hidden, recentre, like):
    """The sums of z, g and g*z of the group at row i; rows are dy, x, mean, rstd, gamma, dx."""
    dy, x, mean, _, gamma, _ = rows
    lanes, at, centre = width(like), i * hidden, across(numbers(mean, i, like), like)
    sums = (like, like, like)
    for start in range(0, hidden, BLOCK * lanes):
        block = (like, like, like)
        end = min(hidden, start + BLOCK * lanes)
        for j in range(start, end - lanes + 1, lanes):
            block = _project(x, dy, gamma, at, j, hidden, None, centre, recentre, block)
        if end % lanes:
            block = _project(
                x, dy, gamma, at, end - end % lanes, hidden, end % lanes, centre, recentre, block
            )
        sums = (sums[0] + block[0], sums[1] + block[1], sums[2] + block[2])
    return sums


@njit(**INLINE)
def _coefficients(sums, mean, rstd, i, hidden, recentre, like):
    """What the results of the group at row i need, a number a row, in all of its lanes.

    With these, x_hat = z*rstd + offset and dx = rstd*(gamma*dy + shift + slope*x_hat).
    """
    centre, scale, sum_g = numbers(mean, i, like), numbers(rstd, i, like), totals(sums[1])
    size = spread(hidden, centre)
    delta = spread(0, centre) if recentre is None else totals(sums[0]) / size
    slope = (delta * sum_g - totals(sums[2])) * scale / size
    return (
        across(centre, like),
        across(scale, like),
        across(-delta * scale, like),
        across(slope, like),
        across(-sum_g / size, like),
    )


@njit(**INLINE)
def _both_sweeps(rows, part, at, then, row, centre, walk, streamed, ragged, recentre, like):
    """Results of the group at element `at`, in whole lines, and the sums of that at element `then`."""
    dy, x, _, _, gamma, dx = rows
    hidden, early, head, written = walk
    early, turn, skip = early
    lanes, sums = width(like), (like, like, like)
    for start in range(0, hidden, BLOCK * lanes):
        block = (like, like, like)
        end = min(hidden, start + BLOCK * lanes)
        whole = end if ragged is None else end - end % lanes
        stop = end if ragged is None else min(whole, written)
        for j in range(start, stop, lanes):
            wanted = then + early + j + (skip if j >= turn else 0)
            ask(x, wanted, hidden, like)
            ask(dy, wanted, hidden, like)
            block = _project(x, dy, gamma, then, j, hidden, None, centre, recentre, block)
            if not apart(like):
                _differentiate(dy, x, gamma, dx, part, at, head + j, hidden, None, row, streamed)
        if apart(like):
            for j in range(start, stop, lanes):
                _differentiate(dy, x, gamma, dx, part, at, head + j, hidden, None, row, streamed)
        if ragged is not None:
            if max(start, written) < whole:
                j = whole - lanes
                block = _project(x, dy, gamma, then, j, hidden, None, centre, recentre, block)
            if whole < end:
                j, count = whole, end - whole
                block = _project(x, dy, gamma, then, j, hidden, count, centre, recentre, block)
        sums = (sums[0] + block[0], sums[1] + block[1], sums[2] + block[2])
    return sums


@njit(**INLINE)
def backward_group(rows, part, i, following, sums, hidden, early, first, ragged, recentre, like):
    """Results of the group at row i, whose sums are known; returns the sums of that at row `following`."""
    dy, x, mean, rstd, gamma, dx = rows
    at, then = i * hidden, following * hidden
    head, tail = (0, hidden) if ragged is None else whole_lines(first, at, hidden, width(like))
    row = _coefficients(sums, mean, rstd, i, hidden, recentre, like)
    centre = across(numbers(mean, following, like), like)
    walk, how = (hidden, early, head, tail - head), (ragged, recentre, like)
    if first < 0:
        sums = _both_sweeps(rows, part, at, then, row, centre, walk, False, *how)
    else:
        sums = _both_sweeps(rows, part, at, then, row, centre, walk, True, *how)
    if ragged is not None:
        if head or tail < hidden:
            prefetch_to_write(dx, at + EARLY * hidden, hidden, like)
        for j, count in ((0, head), (tail, hidden - tail)):
            if count:
                _differentiate(dy, x, gamma, dx, part, at, j, hidden, count, row, False)
    return sums

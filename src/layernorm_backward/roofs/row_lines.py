"""The accesses of the loops of `row_streams` to a line of each row of a group, with hardly any arithmetic.

Places and `lag` are as in `numba_backward_lines`: results are written at `here`, and rows are read for the
first time at `there`. `read_twice`, `with_gamma` and `with_sums` select the accesses of a loop, `streamed`
its stores: True or None, known at compile time.
"""

from numba import njit

from layernorm_backward.kernels.lane_memory import line, load, put, store, stream
from layernorm_backward.kernels.lanes import add_rows, fold, rows_of
from layernorm_backward.kernels.numba_walk import INLINE, vector_lines


@njit(**INLINE)
def _put(values, out, place, streamed):
    if streamed is None:
        store(values, out, place[0], place[1], None)
    else:
        stream(values, out, place[0], place[1])


@njit(**INLINE)
def backward_line(
    rows, part, here, there, lag, carried, sums, read_twice, with_gamma, with_sums, streamed, scale
):
    """dx at `here`; returns the sums read at `there`, and of two rows the lines for the next iteration."""
    dy, x, gamma, dx = rows
    if read_twice is not None:
        factor = scale if with_gamma is None else vector_lines(gamma, there[2], lag, scale)
        g = factor * load(dy, there[0], there[1], None, scale)
        sums = sums[0] + fold(load(x, there[0], there[1], None, scale)), sums[1] + fold(g)
    factor = scale if with_gamma is None else vector_lines(gamma, here[2], lag, scale)
    d, value = load(dy, here[0], here[1], None, scale), load(x, here[0], here[1], None, scale)
    _put(value + factor * d, dx, here, streamed)
    if with_sums is not None:
        carried = (
            _added(part[0], value, here[2], lag, carried[0]),
            _added(part[1], d, here[2], lag, carried[1]),
        )
    return sums, carried


@njit(**INLINE)
def _added(total, values, j, lag, carried):
    """Add a line of a group to a row of sums; two staggered rows as in `differentiate_pair`."""
    if lag is None:
        put(add_rows(line(total, j, values), values), total, j)
        return carried
    first, second, _, _ = rows_of(values)
    put(add_rows(carried, second), total, j - lag)
    return add_rows(line(total, j, first), first)


@njit(**INLINE)
def forward_line(rows, here, there, lag, sums, read_twice, with_gamma, streamed, scale):
    """y at `here`; returns the sum of what is read at `there`, if rows are read twice."""
    x, gamma, beta, y = rows
    if read_twice is not None:
        sums = sums + fold(load(x, there[0], there[1], None, scale))
    value = load(x, here[0], here[1], None, scale)
    if with_gamma is None:
        value = scale * value
    else:
        value = vector_lines(gamma, here[2], lag, scale) * value + vector_lines(beta, here[2], lag, scale)
    _put(value, y, here, streamed)
    return sums

"""What the loops of `row_streams` do with a line of each row of a group: accesses, hardly any arithmetic.

Places and `lag` are as in `numba_backward_lines`: `here` is where results are written, `there` where rows are
read for the first time. `again`, `weighed` and `added` say which accesses a loop makes, and `streamed` how it
writes: True or None, known when it is compiled.
"""

from numba import njit

from layernorm_backward.kernels.lane_memory import line, load, put, store, stream
from layernorm_backward.kernels.lanes import add_rows, fold, rows_of
from layernorm_backward.kernels.numba_walk import INLINE, shared


@njit(**INLINE)
def _put(values, out, place, streamed):
    if streamed is None:
        store(values, out, place[0], place[1], None)
    else:
        stream(values, out, place[0], place[1])


@njit(**INLINE)
def backward_line(rows, part, here, there, lag, carried, sums, again, weighed, added, streamed, scale):
    """dx at `here`; the sums of what is read at `there`, and of two rows what the next turn takes over."""
    dy, x, gamma, dx = rows
    if again is not None:
        factor = scale if weighed is None else shared(gamma, there[2], lag, scale)
        g = factor * load(dy, there[0], there[1], None, scale)
        sums = sums[0] + fold(load(x, there[0], there[1], None, scale)), sums[1] + fold(g)
    factor = scale if weighed is None else shared(gamma, here[2], lag, scale)
    d, value = load(dy, here[0], here[1], None, scale), load(x, here[0], here[1], None, scale)
    _put(value + factor * d, dx, here, streamed)
    if added is not None:
        carried = (
            _added(part[0], value, here[2], lag, carried[0]),
            _added(part[1], d, here[2], lag, carried[1]),
        )
    return sums, carried


@njit(**INLINE)
def _added(total, values, j, lag, carried):
    """Add a line of a group to a row of sums; of two rows apart as in `differentiate_pair`."""
    if lag is None:
        put(add_rows(line(total, j, values), values), total, j)
        return carried
    first, second, _, _ = rows_of(values)
    put(add_rows(carried, second), total, j - lag)
    return add_rows(line(total, j, first), first)


@njit(**INLINE)
def forward_line(rows, here, there, lag, sums, again, weighed, streamed, scale):
    """y at `here`; the sum of what is read at `there`, where that is wanted."""
    x, gamma, beta, y = rows
    if again is not None:
        sums = sums + fold(load(x, there[0], there[1], None, scale))
    value = load(x, here[0], here[1], None, scale)
    if weighed is None:
        value = scale * value
    else:
        value = shared(gamma, here[2], lag, scale) * value + shared(beta, here[2], lag, scale)
    _put(value, y, here, streamed)
    return sums

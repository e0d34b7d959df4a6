"""The loops of `row_streams` over staggered groups, in the order of `numba_lag_backward`.

`single` is one row of `scale`; sums of lines of single rows are kept separately from those of groups.
"""

from numba import njit

from layernorm_backward.kernels.lane_memory import line, put
from layernorm_backward.kernels.lanes import height, width
from layernorm_backward.kernels.numba_walk import INLINE, LEAD, prefetch_rows
from layernorm_backward.roofs.row_lines import backward_line, forward_line


@njit(**INLINE)
def spans(places, hidden, lanes):
    """(at, then, columns ahead, begin, end) of the two spans in which the lines of a group are worked on."""
    lead = LEAD * lanes
    most = places[0], places[1], lead, 0, hidden - lead
    return most, (places[0], places[2], lead - hidden, hidden - lead, hidden)


@njit(**INLINE)
def backward_columns(
    rows, part, span, walk, sums, alone, read_twice, with_gamma, with_sums, streamed, scale, single
):
    """dx of columns of a pair; returns the sums of those first read, of both rows and of single rows."""
    dy, x, _, _ = rows
    at, then, ahead, begin, end = span
    hidden, schedule = walk
    lag, first, how = width(scale), then + ahead, (read_twice, with_gamma, with_sums, streamed)
    prefetch_rows(x, 0, then, begin + ahead, hidden, schedule, streamed, scale)
    prefetch_rows(dy, 1, then, begin + ahead, hidden, schedule, streamed, scale)
    here, there = (at + begin, 0, begin), (first + begin, 0, begin + ahead)
    alone, _ = backward_line(rows, part, here, there, None, part, alone, *how, single)
    carried = line(part[0], begin, single), line(part[1], begin, single)
    for j in range(begin + lag, end, lag):
        prefetch_rows(x, 0, then, j + ahead, hidden, schedule, streamed, scale)
        prefetch_rows(dy, 1, then, j + ahead, hidden, schedule, streamed, scale)
        here, there = (at + j, hidden - lag, j), (first + j, hidden - lag, j + ahead)
        sums, carried = backward_line(rows, part, here, there, lag, carried, sums, *how, scale)
    if with_sums is not None:
        put(carried[0], part[0], end - lag)
        put(carried[1], part[1], end - lag)
    j = end - lag
    here, there = (at + hidden + j, 0, j), (first + hidden + j, 0, j + ahead)
    alone, _ = backward_line(rows, part, here, there, None, part, alone, *how, single)
    return sums, alone


@njit(**INLINE)
def forward_columns(rows, span, walk, sums, alone, read_twice, with_gamma, streamed, scale, single):
    """y of columns of a group; returns the sums of those first read, of all rows and of single rows."""
    x, _, _, _ = rows
    at, then, ahead, begin, end = span
    hidden, schedule = walk
    lag, count, there = width(scale), height(scale), then + ahead
    last = begin + (count - 1) * lag
    for j in range(begin, last, lag):
        prefetch_rows(x, 0, then, j + ahead, hidden, schedule, streamed, scale)
    for which in range(count):
        for j in range(begin, last - which * lag, lag):
            own, first = (at + which * hidden + j, 0, j), (there + which * hidden + j, 0, j + ahead)
            alone = forward_line(rows, own, first, None, alone, read_twice, with_gamma, streamed, single)
    for j in range(last, end, lag):
        prefetch_rows(x, 0, then, j + ahead, hidden, schedule, streamed, scale)
        own, first = (at + j, hidden - lag, j), (there + j, hidden - lag, j + ahead)
        sums = forward_line(rows, own, first, lag, sums, read_twice, with_gamma, streamed, scale)
    for which in range(count):
        for j in range(end - which * lag, end, lag):
            own, first = (at + which * hidden + j, 0, j), (there + which * hidden + j, 0, j + ahead)
            alone = forward_line(rows, own, first, None, alone, read_twice, with_gamma, streamed, single)
    return sums, alone

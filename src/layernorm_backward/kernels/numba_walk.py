"""How numba_fused walks through rows: whole lines and parts of lines, and what is asked for ahead.

x, dy, dx and y are flat, (N*D,). A group is 1, 2 or 4 neighbouring rows, worked on line by line. A result
goes past the caches in whole lines at multiples of LINE bytes, from element `first` of the array on, wherever
a row begins. `first` is -1 where all lines are stored as usual. A line that a row shares with the next is
kept in `seam` until both have written to it; where the other row is not of the same pipeline, or rows are
shorter than a line, the parts of lines are stored as usual.
"""

from numba import njit

from layernorm_backward.kernels import processor
from layernorm_backward.kernels.lane_memory import (
    line,
    prefetch,
    prefetch_far,
    put_line,
    store,
    stream,
)
from layernorm_backward.kernels.lanes import height, width

BLOCK = 16  # lines added one after the other: more let squares of rows on a coarse grid round one way
FAR, FEW = processor.asks_far(), processor.few_registers()
INLINE = {"forceinline": True, "error_model": "numpy"}
PLAIN = {"error_model": "numpy"}


@njit(**INLINE)
def whole_lines(first, at, hidden, lanes):
    """Columns between which the row at element `at` has whole lines to store."""
    head = min((first - at) % lanes, hidden) if first >= 0 else 0
    return head, hidden - (hidden - head) % lanes


@njit(**INLINE)
def put_head(result_at, given, out, at, head, hidden, seam, shared):
    """Write the part of a line at which the row at element `at` begins, or add it to the seam.

    result_at(given, at, j, hidden, count): a line of results from column j on.
    """
    if head:
        values = result_at(given, at, 0, hidden, head)
        if shared:
            put_line(values, seam, width(values) - head)
        else:
            store(values, out, at, 0, head)


@njit(**INLINE)
def put_rest(result_at, given, out, at, ends, hidden, seam, shared, like):
    """Write the lines that are not in a loop over the row's own whole lines: its last, and those it shares.

    In each turn but the first that loop streams the line that begins `lanes - head` columns before its own.
    Stored `head` columns after its own, it would often lie at the place, modulo 4096, where the next turn
    reads the next row: a load waits for such a store. `shared` tells whether the rows before and behind share
    a seam with this one.
    """
    head, tail = ends
    lanes, streamed = width(like), tail - head
    if lanes <= streamed and streamed == hidden - hidden % lanes:
        stream(result_at(given, at, tail - lanes, hidden, None), out, at + tail - lanes, hidden)
    if head and shared[0]:
        stream(line(seam, 0, like), out, at + head - lanes, hidden)
    put_tail(result_at, given, out, at, tail, hidden, seam, shared[1])


@njit(**INLINE)
def put_tail(result_at, given, out, at, tail, hidden, seam, shared):
    """Write the part of a line with which a row ends, or begin the seam with it."""
    if tail < hidden:
        values = result_at(given, at, tail, hidden, hidden - tail)
        if shared:
            put_line(values, seam, 0)
        else:
            store(values, out, at + tail, 0, hidden - tail)


@njit(**INLINE)
def asked(hidden, distance, like):
    """start, turn, skip and leads: what to ask for while a group is read, distance = (ahead, spread) columns.

    At column j of the group at element i that is element i + start + j, and from column `turn` on `skip`
    more: a group's rows are read side by side, so behind the end of a row comes the same row of the next
    group. Each further row is asked for leads[0] columns earlier, and each further array leads[1]: all are
    spread over so many columns, but where rows of a group are too short for that.
    """
    ahead, spread = distance
    rows, groups, columns = height(like), ahead // hidden, ahead % hidden
    lead = spread // rows if rows == 1 or ahead + spread <= hidden else 0
    return groups * rows * hidden + columns, hidden - columns, (rows - 1) * hidden, (lead, lead // 2)


@njit(**INLINE)
def ask(x, which, then, j, hidden, early, like):
    """Ask for a line of each row of x, array number `which` of those read, as `early` has it for column j."""
    start, turn, skip, leads = early
    for row in range(height(like)):
        column = j + row * leads[0] + which * leads[1]
        ask_line(x, then + row * hidden + start + column + (skip if column >= turn else 0), like)


@njit(**INLINE)
def ask_line(x, start, like):
    """Ask for a line of x, in the cache where the processor wants it."""
    if FAR:
        prefetch_far(x, start, like)
    else:
        prefetch(x, start, like)


@njit(**INLINE)
def apart(like):
    """Whether the sweeps of two groups have loops of their own, BLOCK lines at a time.

    Lines of 16 bits have so many lanes that one sweep takes all registers, where there are few.
    """
    return FEW and width(like) > 16

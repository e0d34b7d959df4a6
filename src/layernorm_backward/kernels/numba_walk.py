"""How numba_fused walks through rows: what is asked for ahead, and what the rows of a group share.

x, dy, dx and y are flat, (N*D,). A group is 1, 2 or 4 neighbouring rows, worked on line by line.
"""

from numba import njit

from layernorm_backward.kernels import processor
from layernorm_backward.kernels.lane_memory import line, lines, prefetch, prefetch_far
from layernorm_backward.kernels.lanes import height, repeat, width

GROUPS = (1, 2, 4)  # rows
BLOCK = 16  # lines added one after the other: more let squares of rows on a coarse grid round one way
LEAD = BLOCK  # lines that the sums of lagging rows are ahead, so that blocks of both sweeps end together
FAR, FEW = processor.asks_far(), processor.few_registers()
INLINE = {"forceinline": True, "error_model": "numpy"}
PLAIN = {"error_model": "numpy"}


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
def ask(x, which, then, j, hidden, early, streamed, like):
    """Ask for a line of each row of x, array number `which` of those read, as `early` has it for column j.

    Where results are not `streamed`, x is in the caches already, and comes near where that is faster.
    """
    start, turn, skip, leads = early
    for row in range(height(like)):
        column = j + row * leads[0] + which * leads[1]
        at = then + row * hidden + start + column + (skip if column >= turn else 0)
        if FEW and not streamed:
            prefetch(x, at, like)
        else:
            ask_line(x, at, like)


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


@njit(**INLINE)
def shared(vector, j, lag, like):
    """The line of a vector (D,) at which each row of a group is, the first at column j.

    Each row is `lag` columns behind the one before it; None: all are at the same column.
    """
    if lag is None:
        return repeat(line(vector, j, like), like)
    return lines(vector, j, -lag, like)

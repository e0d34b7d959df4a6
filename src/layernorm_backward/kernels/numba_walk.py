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
    """start, turn, skip, leads, turns: what to ask for, from a distance of (ahead, spread, pages).

    ahead and spread are columns. At column j of the group at element i that is element i + start + j, and
    from column `turn` on `skip` more: a group's rows are read side by side, so behind the end of a row comes
    the same row of the next group. Each further row is asked for leads[0] columns earlier, and each further
    array leads[1]: all are spread over so many columns, but where rows of a group are too short for that.
    Single rows follow each other, and are asked for as `in_turn` has it.
    """
    ahead, spread, pages = distance
    rows, groups, columns = height(like), ahead // hidden, ahead % hidden
    lead = spread // rows if rows == 1 or ahead + spread <= hidden else 0
    start, skip = groups * rows * hidden + columns, (rows - 1) * hidden
    return start, hidden - columns, skip, (lead, lead // 2), order(ahead, pages, width(like))


@njit(**INLINE)
def order(ahead, pages, lanes):
    """mask, last, step, shift and first of `in_turn`: for pages of `ahead` elements, a power of two of lines.

    With one page that is element after element, `ahead` elements ahead, any number of them.
    """
    if pages == 1:
        return 0, 0, 0, 0, ahead
    shift, later = 0, ahead - ahead // pages
    while 1 << shift < pages:
        shift += 1
    return ahead - 1, (pages - 1) * lanes, later // lanes, shift, ahead + later


@njit(**INLINE)
def in_turn(at, turns):
    """The element to ask for while that at `at` is read: of `pages` pages in turn, a line of each.

    Those are the pages behind the one that is read: of the nearest its last lines are asked for, of the
    farthest its first ones. Line l of a page of L lines is asked for while the page is read that lies
    pages - l*pages//L before its own. So each line is asked for once, a page or more ahead.
    """
    mask, last, step, shift, first = turns
    within = at & mask
    return at - within + first + (at & last) * step + (within >> shift)


@njit(**INLINE)
def ask(x, which, then, j, hidden, early, streamed, like):
    """Ask for a line of each row of x, array number `which` of those read, as `early` has it for column j.

    Where results are not `streamed`, x is in the caches already: where vectors are short, to find out what
    to ask for takes longer than it spares.
    """
    if FEW and not streamed:
        return
    start, turn, skip, leads, turns = early
    if height(like) == 1:
        ask_line(x, in_turn(then + j, turns) + which * leads[1], like)
        return
    for row in range(height(like)):
        column = j + row * leads[0] + which * leads[1]
        at = then + row * hidden + start + column + (skip if column >= turn else 0)
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
    return FEW and narrow(like)


@njit(**INLINE)
def narrow(like):
    """Whether x has 16 bits: no line of other storage has so many lanes."""
    return width(like) > 16


@njit(**INLINE)
def shared(vector, j, lag, like):
    """The line of a vector (D,) at which each row of a group is, the first at column j.

    Each row is `lag` columns behind the one before it; None: all are at the same column.
    """
    if lag is None:
        return repeat(line(vector, j, like), like)
    return lines(vector, j, -lag, like)

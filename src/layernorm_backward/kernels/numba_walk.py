"""How numba_fused traverses rows: software prefetching, and the vectors that the rows of a group share.

x, dy, dx and y are flat, (N*D,). A group is 1, 2 or 4 neighbouring rows, worked on line by line.
"""

from numba import njit

from layernorm_backward.kernels import processor
from layernorm_backward.kernels.lane_memory import line, lines, prefetch, prefetch_l2
from layernorm_backward.kernels.lanes import height, repeat, width

GROUPS = (1, 2, 4)  # rows
BLOCK = 16  # lines added one after the other: with more, squares of rows on a coarse grid all round one way
LEAD = BLOCK  # lines by which the sums of lagging rows lead, so that the blocks of both sweeps end together
FEW_REGISTERS, PREFETCH_L2 = processor.traits().few_registers, processor.traits().prefetch_to_l2
INLINE = {"forceinline": True, "error_model": "numpy"}
PLAIN = {"error_model": "numpy"}


@njit(**INLINE)
def prefetch_schedule(hidden, distance, like):
    """(start, turn, skip, leads, interleave): what to prefetch; distance: (ahead, spread, pages).

    ahead and spread are in columns. At column j of the group at element i, element i + start + j is
    prefetched, from column `turn` on the one `skip` further: a group's rows are read side by side, so the end
    of a row is followed by the same row of the next group. Each further row is prefetched leads[0] columns
    earlier, and each further array leads[1], so that simultaneous prefetches are spread over `spread`
    columns, unless the rows of a group are too short for that. Single rows follow each other, and are
    prefetched as in `interleaved`.
    """
    ahead, spread, pages = distance
    rows, groups, columns = height(like), ahead // hidden, ahead % hidden
    lead = spread // rows if rows == 1 or ahead + spread <= hidden else 0
    start, skip = groups * rows * hidden + columns, (rows - 1) * hidden
    return start, hidden - columns, skip, (lead, lead // 2), page_interleave(ahead, pages, width(like))


@njit(**INLINE)
def page_interleave(ahead, pages, lanes):
    """(mask, last, step, shift, first) of `interleaved`; a page has `ahead` elements, a power of two lines.

    With one page, elements are prefetched in order, `ahead` elements ahead, which may be any number.
    """
    if pages == 1:
        return 0, 0, 0, 0, ahead
    shift, later = 0, ahead - ahead // pages
    while 1 << shift < pages:
        shift += 1
    return ahead - 1, (pages - 1) * lanes, later // lanes, shift, ahead + later


@njit(**INLINE)
def interleaved(at, interleave):
    """The element to prefetch while that at `at` is read: one line of each of the next `pages` pages in turn.

    Of the nearest page the last lines are prefetched, of the farthest the first ones: line l of a page of L
    lines is prefetched while the page pages - l*pages//L before its own is read. So each line is prefetched
    once, a page or more ahead.
    """
    mask, last, step, shift, first = interleave
    within = at & mask
    return at - within + first + (at & last) * step + (within >> shift)


@njit(**INLINE)
def prefetch_rows(x, which, then, j, hidden, schedule, streamed, like):
    """Prefetch a line of each row of x, array number `which` of those read, by the schedule for column j.

    Where results are not `streamed`, x is cache-resident. With few registers, whose vectors are short,
    computing the addresses then takes longer than prefetching saves.
    """
    if FEW_REGISTERS and not streamed:
        return
    start, turn, skip, leads, interleave = schedule
    if height(like) == 1:
        prefetch_line(x, interleaved(then + j, interleave) + which * leads[1], like)
        return
    for row in range(height(like)):
        column = j + row * leads[0] + which * leads[1]
        at = then + row * hidden + start + column + (skip if column >= turn else 0)
        prefetch_line(x, at, like)


@njit(**INLINE)
def prefetch_line(x, start, like):
    """Prefetch a line of x, to the cache level that suits the processor."""
    if PREFETCH_L2:
        prefetch_l2(x, start, like)
    else:
        prefetch(x, start, like)


@njit(**INLINE)
def separate_loops(like):
    """Whether the sweeps of two groups have separate loops, BLOCK lines at a time, for register pressure.

    Where registers are few, one sweep over 16-bit lines, which have many lanes, takes all of them.
    """
    return FEW_REGISTERS and narrow(like)


@njit(**INLINE)
def narrow(like):
    """Whether x has 16 bits: no line of other storage has so many lanes."""
    return width(like) > 16


@njit(**INLINE)
def vector_lines(vector, j, lag, like):
    """For each row of a group, the line of a vector (D,) at the row's column; the first row is at column j.

    Each row is `lag` columns behind the one before it; None: all are at the same column.
    """
    if lag is None:
        return repeat(line(vector, j, like), like)
    return lines(vector, j, -lag, like)

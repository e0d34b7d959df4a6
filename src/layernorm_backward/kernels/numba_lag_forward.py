"""The forward sweeps of numba_fused over groups of rows, staggered as in `numba_lag_backward`.

Each row lags a line behind the one before it, and the sums lead the results by LEAD lines. The first lines of
the first rows and the last lines of the last rows are worked on row by row. What a row then needs is in
`state`: its two sums, a line each, those of its current block, and its numbers.
"""

from numba import njit

from layernorm_backward.kernels.lane_memory import lines, numbers, put, stack_lines
from layernorm_backward.kernels.lanes import broadcast, fold, from_row, full, height, width
from layernorm_backward.kernels.numba_forward_lines import moment, normalized, shifted
from layernorm_backward.kernels.numba_ring import write
from layernorm_backward.kernels.numba_walk import BLOCK, INLINE, LEAD, PLAIN, prefetch_rows

_ROWS = 4  # of a group, at most
_BLOCKS, _NUMBERS = 2 * _ROWS, 4 * _ROWS  # lines of a state before those of blocks, and before the numbers
_STATE = 2 * _NUMBERS


@njit(**INLINE)
def moments_ahead(rows, i, hidden, shift, like):
    """The sums of the first LEAD lines of the group at row i, about numbers `shift`."""
    x, at, centre, zero = rows[0], i * hidden, broadcast(shift, like), fold(like)
    block = (zero, zero)
    for j in range(0, LEAD * width(like), width(like)):
        block = moment(x, None, (at + j, hidden, j), None, centre, block)
    return _sum((zero, zero), block)


@njit(**INLINE)
def lagging_sweeps(rows, places, known, shifts, ahead, walk, streamed, like, one):
    """y of a group; returns the sums of the next, and those of the first LEAD lines of the third.

    places: elements at which the three begin. known: numbers that y needs. shifts: numbers of the second and
    the third. ahead: the sums of the second's first LEAD lines.
    """
    at, then, later = places
    hidden, zero, lead = walk[0], fold(full(0, like)), LEAD * width(like)
    most, rest = (at, then, lead, 0, hidden - lead), (at, later, lead - hidden, hidden - lead, hidden)
    sums = _columns(rows, most, known, shifts[0], ahead, walk, streamed, like, one)
    return sums, _columns(rows, rest, known, shifts[1], (zero, zero), walk, streamed, like, one)


@njit(**PLAIN)
def _columns(rows, span, known, centre, sums, walk, streamed, like, one):
    """y in columns `begin` to `end` of the group at element `at`.

    Returns the sums of the group at element `then` over the columns `ahead` further on.
    """
    x, gamma, beta, _, y, _, _ = rows
    at, then, ahead, begin, end = span
    hidden, schedule = walk
    lag, count, zero = width(like), height(like), fold(full(0, like))
    last, state = begin + (count - 1) * lag, stack_lines(gamma, _STATE)
    _put_numbers(known, centre, state, zero)
    _put(sums, state, 0)
    _put((zero, zero), state, _BLOCKS)
    for j in range(begin, last, lag):
        prefetch_rows(x, 0, then, j + ahead, hidden, schedule, streamed, like)
    for which in range(count):
        _single_row(rows, span, (begin, last - which * lag), which, state, hidden, streamed, one)
    sums, block = _get(state, 0, zero), _get(state, _BLOCKS, zero)
    row, shift = _broadcast(known, like), broadcast(centre, like)
    for j in range(last, end, lag):
        which = (j - begin) // lag % BLOCK
        if which < count:
            sums, block = _next_block(sums, block, which, zero)
        prefetch_rows(x, 0, then, j + ahead, hidden, schedule, streamed, like)
        there, here = (then + j + ahead, hidden - lag, j + ahead), (at + j, hidden - lag, j)
        block = moment(x, None, there, None, shift, block)
        y_line = normalized(shifted(x, here, None, row), gamma, beta, j, lag, row)
        write(y_line, y, *here[:2], None, streamed, None)
    _put(sums, state, 0)
    _put(block, state, _BLOCKS)
    for which in range(count):
        _single_row(rows, span, (end - which * lag, end), which, state, hidden, streamed, one)
    return _sum(_get(state, 0, zero), _get(state, _BLOCKS, zero))


@njit(**PLAIN)
def _single_row(rows, span, columns, which, state, hidden, streamed, one):
    """Some columns of row `which` of a group."""
    x, gamma, beta, _, y, _, _ = rows
    at, then, ahead, begin, _ = span
    lanes, zero = width(one), fold(one)
    own = _numbers_in(state, which, zero, one)
    sums, block = _get(state, which, zero), _get(state, _BLOCKS + which, zero)
    row, shift = _broadcast(own, one), broadcast(own[3], one)
    for j in range(columns[0], columns[1], lanes):
        if (j - begin) // lanes % BLOCK == 0:
            sums, block = _sum(sums, block), (zero, zero)
        here, there = at + which * hidden + j, then + which * hidden + j + ahead
        block = moment(x, None, (there, 0, j + ahead), None, shift, block)
        y_line = normalized(shifted(x, (here, 0, j), None, row), gamma, beta, j, None, row)
        write(y_line, y, here, 0, None, streamed, None)
    _put(sums, state, which)
    _put(block, state, _BLOCKS + which)


@njit(**INLINE)
def _sum(a, b):
    return a[0] + b[0], a[1] + b[1]


@njit(**INLINE)
def _next_block(sums, block, which, zero):
    """Add the block of row `which` to its sums, and begin another."""
    return (
        (from_row(which, sums[0] + block[0], sums[0]), from_row(which, sums[1] + block[1], sums[1])),
        (from_row(which, zero, block[0]), from_row(which, zero, block[1])),
    )


@njit(**INLINE)
def _broadcast(known, like):
    return broadcast(known[0], like), broadcast(known[1], like), broadcast(known[2], like)


@njit(**INLINE)
def _put(two, state, first):
    """Write two sums of all rows, or of one, from line `first` of the state on."""
    put(two[0], state, first * width(two[0]))
    put(two[1], state, (first + _ROWS) * width(two[0]))


@njit(**INLINE)
def _get(state, first, like):
    """Read what `_put` wrote, of as many rows as `like` has."""
    step = width(like)
    return lines(state, first * step, step, like), lines(state, (first + _ROWS) * step, step, like)


@njit(**INLINE)
def _put_numbers(known, centre, state, like):
    first = _NUMBERS * width(like)
    put(known[0], state, first)
    put(known[1], state, first + _ROWS)
    put(known[2], state, first + 2 * _ROWS)
    put(centre, state, first + 3 * _ROWS)


@njit(**INLINE)
def _numbers_in(state, which, like, one):
    first = _NUMBERS * width(like) + which
    return (
        numbers(state, first, one),
        numbers(state, first + _ROWS, one),
        numbers(state, first + 2 * _ROWS, one),
        numbers(state, first + 3 * _ROWS, one),
    )

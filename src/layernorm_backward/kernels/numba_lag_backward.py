"""The backward sweeps of numba_fused over pairs of rows, staggered against first-level cache conflicts.

Rows of a multiple of 4096 bytes map to the same sets of the first-level cache. Side by side, two rows of x
and dy in both sweeps need eight lines of a set at a time, which is the whole associativity of some caches.
Here the second row lags a line behind the first, and the sums lead the results by LEAD lines: while the last
lines of a pair are worked on, the sums of the pair after the next one begin. dgamma and dbeta still add the
rows of each column in order, and a row's sums its lines in the same blocks: no bit differs from rows side by
side.

The first line of the first row and the last of the second are worked on as a single row. What such a row
needs is in `state`: its three sums, a line each, those of its current block, and its numbers.
"""

from numba import njit

from layernorm_backward.kernels.lane_memory import (
    line,
    lines,
    numbers,
    put,
    stack_lines,
)
from layernorm_backward.kernels.lanes import broadcast, fold, from_row, full, width
from layernorm_backward.kernels.numba_backward_lines import (
    centred,
    differentiate,
    differentiate_pair,
    project,
)
from layernorm_backward.kernels.numba_walk import BLOCK, INLINE, LEAD, PLAIN, prefetch_rows

_ROWS = 2  # of a pair
_BLOCKS, _NUMBERS = 3 * _ROWS, 6 * _ROWS  # lines of a state before those of blocks, and before the numbers
_STATE = 2 * _NUMBERS


@njit(**INLINE)
def sums_ahead(rows, i, hidden, recentre, like):
    """The sums of the first LEAD lines of the pair at row i."""
    dy, x, mean, _, gamma, _ = rows
    at, centre, zero = i * hidden, broadcast(numbers(mean, i, like), like), fold(like)
    block = (zero, zero, zero)
    for j in range(0, LEAD * width(like), width(like)):
        block = project(x, dy, gamma, None, (at + j, hidden, j), None, None, centre, recentre, block)
    return _sum((zero, zero, zero), block)


@njit(**INLINE)
def lagging_sweeps(rows, part, places, known, means, ahead, walk, streamed, recentre, like, one):
    """Results of a pair; returns the sums of the next, and those of the first LEAD lines of the third.

    places: elements at which the three begin. known: numbers that the results need. means: of the second and
    the third. ahead: the sums of the second's first LEAD lines.
    """
    at, then, later = places
    hidden, zero, lead = walk[0], fold(full(0, like)), LEAD * width(like)
    how = walk, streamed, recentre, like, one
    most, rest = (at, then, lead, 0, hidden - lead), (at, later, lead - hidden, hidden - lead, hidden)
    sums = _columns(rows, part, most, known, means[0], ahead, *how)
    return sums, _columns(rows, part, rest, known, means[1], (zero, zero, zero), *how)


@njit(**PLAIN)
def _columns(rows, part, span, known, centre, sums, walk, streamed, recentre, like, one):
    """Results of columns `begin` to `end` of the pair at element `at`.

    Returns the sums of the pair at element `then` over the columns `ahead` further on.
    """
    dy, x, _, _, gamma, dx = rows
    at, then, ahead, begin, end = span
    hidden, schedule = walk
    lag, zero, state = width(like), fold(full(0, like)), stack_lines(gamma, _STATE)
    _put_numbers(known, centre, state, zero)
    _put(sums, state, 0)
    _put((zero, zero, zero), state, _BLOCKS)
    _prefetch_rows(rows, then, begin + ahead, hidden, schedule, streamed, like)
    _single_row(rows, part, span, begin, 0, state, hidden, streamed, recentre, one)
    sums, block = _get(state, 0, zero), _get(state, _BLOCKS, zero)
    row, mean = _broadcast(known, like), broadcast(centre, like)
    carried = line(part[0], begin, one), line(part[1], begin, one)
    for j in range(begin + lag, end, lag):
        which = (j - begin) // lag % BLOCK
        if which < _ROWS:
            sums, block = _next_block(sums, block, which, zero)
        _prefetch_rows(rows, then, j + ahead, hidden, schedule, streamed, like)
        there, here = (then + j + ahead, hidden - lag, j + ahead), (at + j, hidden - lag, j)
        block = project(x, dy, gamma, None, there, lag, None, mean, recentre, block)
        d, x_hat = centred(dy, x, here, None, row)
        carried = differentiate_pair(d, x_hat, gamma, dx, part, here, lag, row, streamed, carried)
    put(carried[0], part[0], end - lag)
    put(carried[1], part[1], end - lag)
    _put(sums, state, 0)
    _put(block, state, _BLOCKS)
    _single_row(rows, part, span, end - lag, 1, state, hidden, streamed, recentre, one)
    return _sum(_get(state, 0, zero), _get(state, _BLOCKS, zero))


@njit(**PLAIN)
def _single_row(rows, part, span, j, which, state, hidden, streamed, recentre, one):
    """Column j of row `which` of a pair."""
    dy, x, _, _, gamma, dx = rows
    at, then, ahead, begin, _ = span
    zero = fold(one)
    own = _numbers_in(state, which, zero, one)
    sums, block = _get(state, which, zero), _get(state, _BLOCKS + which, zero)
    row, mean = _broadcast(own, one), broadcast(own[5], one)
    if (j - begin) // width(one) % BLOCK == 0:
        sums, block = _sum(sums, block), (zero, zero, zero)
    here, there = (at + which * hidden + j, 0, j), (then + which * hidden + j + ahead, 0, j + ahead)
    block = project(x, dy, gamma, None, there, None, None, mean, recentre, block)
    d, x_hat = centred(dy, x, here, None, row)
    differentiate(d, x_hat, gamma, dx, part, here, None, row, streamed, None)
    _put(sums, state, which)
    _put(block, state, _BLOCKS + which)


@njit(**INLINE)
def _prefetch_rows(rows, then, j, hidden, schedule, streamed, like):
    prefetch_rows(rows[1], 0, then, j, hidden, schedule, streamed, like)
    prefetch_rows(rows[0], 1, then, j, hidden, schedule, streamed, like)


@njit(**INLINE)
def _sum(a, b):
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


@njit(**INLINE)
def _next_block(sums, block, which, zero):
    """Add the block of row `which` to its sums, and begin another."""
    added = _sum(sums, block)
    return _with_row(which, added, sums), _with_row(which, (zero, zero, zero), block)


@njit(**INLINE)
def _with_row(which, yes, no):
    return from_row(which, yes[0], no[0]), from_row(which, yes[1], no[1]), from_row(which, yes[2], no[2])


@njit(**INLINE)
def _broadcast(known, like):
    """The first five numbers of each row, in all of its lanes."""
    return (
        broadcast(known[0], like),
        broadcast(known[1], like),
        broadcast(known[2], like),
        broadcast(known[3], like),
        broadcast(known[4], like),
    )


@njit(**INLINE)
def _put(three, state, first):
    """Write three sums of both rows, or of one, from line `first` of the state on."""
    step = width(three[0])
    put(three[0], state, first * step)
    put(three[1], state, (first + _ROWS) * step)
    put(three[2], state, (first + 2 * _ROWS) * step)


@njit(**INLINE)
def _get(state, first, like):
    """Read what `_put` wrote, of as many rows as `like` has."""
    step = width(like)
    return (
        lines(state, first * step, step, like),
        lines(state, (first + _ROWS) * step, step, like),
        lines(state, (first + 2 * _ROWS) * step, step, like),
    )


@njit(**INLINE)
def _put_numbers(known, centre, state, like):
    first = _NUMBERS * width(like)
    put(known[0], state, first)
    put(known[1], state, first + _ROWS)
    put(known[2], state, first + 2 * _ROWS)
    put(known[3], state, first + 3 * _ROWS)
    put(known[4], state, first + 4 * _ROWS)
    put(centre, state, first + 5 * _ROWS)


@njit(**INLINE)
def _numbers_in(state, which, like, one):
    first = _NUMBERS * width(like) + which
    return (
        numbers(state, first, one),
        numbers(state, first + _ROWS, one),
        numbers(state, first + 2 * _ROWS, one),
        numbers(state, first + 3 * _ROWS, one),
        numbers(state, first + 4 * _ROWS, one),
        numbers(state, first + 5 * _ROWS, one),
    )

"""How numba_fused writes results; a ring is for those that begin within a line, but go past the caches.

A run is elements behind each other: all rows of a pipeline, or each row of a group by itself. A line of
results enters the ring at its place modulo the ring's size, and leaves it LATE lines later in whole lines of
the array: a load that takes parts of lines just stored would wait for them. The first and the last line of a
run may be shared with another run, so their parts are stored as usual.

A ring is (held, first, begin): HELD lines for each row of a group, the last of which goes on with a line that
ends behind the ring; the element of the array from which on lines lie at multiples of LINE bytes, -1 where
nothing goes past the caches; and the element at which the (first row's) run begins.
"""

from numba import njit

from layernorm_backward.kernels.lane_memory import copy_line, moved, store, stream, stream_line
from layernorm_backward.kernels.lanes import height, likely, rows_of, width
from layernorm_backward.kernels.numba_walk import INLINE, PLAIN

RING = 32  # lines, a power of two: with 4096 bytes, loads wait for stores at their place modulo 4096
HELD = RING + 1
LATE = 8  # lines: 4 to 16 are as fast


@njit(**INLINE)
def write(values, out, start, hidden, count, streamed, ring):
    """Write a line of each row of a group, at elements start, start + hidden, ... of `out`.

    `count` elements of it, all where it is None; through the ring if there is one, else past the caches, in
    whole lines, if it is `streamed`.
    """
    if ring is not None:
        _put(values, out, start, hidden, count, ring)
    elif streamed:
        stream(values, out, start, hidden)
    else:
        store(values, out, start, hidden, count)


@njit(**INLINE)
def _put(values, out, start, hidden, count, ring):
    first, second, third, fourth = rows_of(values)
    _put_row(first, 0, out, start, hidden, count, ring)
    _put_row(second, 1, out, start, hidden, count, ring)
    _put_row(third, 2, out, start, hidden, count, ring)
    _put_row(fourth, 3, out, start, hidden, count, ring)


@njit(**INLINE)
def _put_row(values, row, out, start, hidden, count, ring):
    if values is not None:
        lanes, at = width(values), start + row * hidden - ring[1]
        own = _of_row(ring, row, hidden, lanes)
        _enter(values, own[0], at)
        if count is None:
            _leave(out, at, lanes, own)
        else:
            _leave_full(out, at, lanes, count, own)


@njit(**INLINE)
def _of_row(ring, row, hidden, lanes):
    held, first, begin = ring
    return moved(held, row * HELD * lanes), first, begin + row * hidden


@njit(**INLINE)
def _enter(values, held, at):
    """What a last line of a row has behind its `count` elements is written over by the next row."""
    lanes = width(values)
    place, last = _place(at, lanes), (RING - 1) * lanes
    store(values, held, place, 0, None)
    if not likely(place <= last):
        copy_line(held, last + lanes, held, 0, None)


@njit(**INLINE)
def _place(at, lanes):
    return at & (RING * lanes - 1)


@njit(**INLINE)
def _leave(out, at, lanes, ring):
    """Write the line that is LATE lines before that of element `at`, or what the run has of it."""
    held, first, begin = ring
    start, begin = (at & -lanes) - LATE * lanes, begin - first
    if likely(start >= begin):
        stream_line(held, _place(start, lanes), out, start + first)
    else:
        _write_part(out, begin, start + lanes, lanes, ring)


@njit(**INLINE)
def _leave_full(out, at, lanes, count, ring):
    """`_leave`, if `count` elements fill up the line of element `at`."""
    if at % lanes + count >= lanes:
        _leave(out, at, lanes, ring)


@njit(**INLINE)
def _write_part(out, start, end, lanes, ring):
    """Write elements of one line, if there are any."""
    held, first, _ = ring
    if start < end:
        copy_line(held, _place(start, lanes), out, start + first, end - start)


@njit(**PLAIN)
def empty(out, end, hidden, ring, like):
    """Write what is left of the runs of a group, which end at elements end, end + hidden, ..."""
    lanes = width(like)
    for row in range(height(like) if ring[1] >= 0 else 0):
        own = _of_row(ring, row, hidden, lanes)
        begin, stop = own[2] - own[1], end + row * hidden - own[1]
        for line in range(LATE):
            _leave(out, stop + line * lanes, lanes, own)
        _write_part(out, max(stop & -lanes, begin), stop, lanes, own)

"""How numba_fused writes results; a ring buffer aligns those that begin within a line to non-temporal stores.

A run is a sequence of contiguous elements: all rows of a pipeline, or each row of a group by itself. A line
of results enters the ring at its element modulo the ring's size, and leaves it DELAY lines later in whole
lines of the array: a load that overlaps two lines just stored would wait for both stores. The first and the
last line of a run may be shared with another run, so their parts are written by ordinary stores.

A ring is (held, first, begin). held: RING_LINES lines for each row of a group; a line that crosses the ring's
end continues in the last of them. first: the element of the array at the first multiple of LINE bytes, -1
where no result is streamed. begin: the element at which the (first row's) run begins.
"""

from numba import njit

from layernorm_backward.kernels.lane_memory import copy_line, moved, store, stream, stream_line
from layernorm_backward.kernels.lanes import height, likely, rows_of, width
from layernorm_backward.kernels.numba_walk import INLINE, PLAIN

RING = 32  # lines, a power of two; at 4096 bytes, loads would wait for stores to the same address modulo 4096
RING_LINES = RING + 1
DELAY = 8  # lines: 4 to 16 are as fast


@njit(**INLINE)
def write(values, out, start, hidden, count, streamed, ring):
    """Write a line of each row of a group, at elements start, start + hidden, ... of `out`.

    count: elements of the line; None: all. They go through the ring if there is one, else, if `streamed`, by
    non-temporal stores of whole lines.
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
        _push(values, own[0], at)
        if count is None:
            _drain(out, at, lanes, own)
        else:
            _drain_full(out, at, lanes, count, own)


@njit(**INLINE)
def _of_row(ring, row, hidden, lanes):
    held, first, begin = ring
    return moved(held, row * RING_LINES * lanes), first, begin + row * hidden


@njit(**INLINE)
def _push(values, held, at):
    """Store a line in the ring; the next row overwrites the unused lanes of a remainder line."""
    lanes = width(values)
    place, last = _place(at, lanes), (RING - 1) * lanes
    store(values, held, place, 0, None)
    if not likely(place <= last):
        copy_line(held, last + lanes, held, 0, None)


@njit(**INLINE)
def _place(at, lanes):
    return at & (RING * lanes - 1)


@njit(**INLINE)
def _drain(out, at, lanes, ring):
    """Write the line DELAY lines before that of element `at`, or the part of it that belongs to the run."""
    held, first, begin = ring
    start, begin = (at & -lanes) - DELAY * lanes, begin - first
    if likely(start >= begin):
        stream_line(held, _place(start, lanes), out, start + first)
    else:
        _write_part(out, begin, start + lanes, lanes, ring)


@njit(**INLINE)
def _drain_full(out, at, lanes, count, ring):
    """`_drain`, if `count` elements fill up the line of element `at`."""
    if at % lanes + count >= lanes:
        _drain(out, at, lanes, ring)


@njit(**INLINE)
def _write_part(out, start, end, lanes, ring):
    """Write elements `start` to `end` of one line, if there are any, by an ordinary store."""
    held, first, _ = ring
    if start < end:
        copy_line(held, _place(start, lanes), out, start + first, end - start)


@njit(**PLAIN)
def flush(out, end, hidden, ring, like):
    """Write what the ring still holds of a group's runs, which end at elements end, end + hidden, ..."""
    lanes = width(like)
    for row in range(height(like) if ring[1] >= 0 else 0):
        own = _of_row(ring, row, hidden, lanes)
        begin, stop = own[2] - own[1], end + row * hidden - own[1]
        for line in range(DELAY):
            _drain(out, stop + line * lanes, lanes, own)
        _write_part(out, max(stop & -lanes, begin), stop, lanes, own)

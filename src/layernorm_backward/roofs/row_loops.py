"""The compiled loops of `row_streams`: a group of rows at a time, in the order of numba_fused.

Arguments and names are those of `row_lines`, `numba_backward` and `numba_forward`; `lag` is True or None.
"""

from collections.abc import Callable
from functools import cache

from numba import njit, prange

from layernorm_backward.kernels.lane_memory import align_stack, elements, fence, line, put
from layernorm_backward.kernels.lanes import (
    add_rows,
    by_parity,
    fold,
    full,
    height,
    width,
    zeros,
)
from layernorm_backward.kernels.numba_scratch import cut_backward, cut_forward, part_row
from layernorm_backward.kernels.numba_sharing import next_piece, untaken
from layernorm_backward.kernels.numba_walk import INLINE, PLAIN, prefetch_rows, prefetch_schedule
from layernorm_backward.kernels.sources import checksum, named
from layernorm_backward.roofs.lagging_loops import backward_columns, forward_columns, spans
from layernorm_backward.roofs.row_lines import backward_line, forward_line

_SOURCES = checksum(backward_columns, backward_line)


@njit(**INLINE)
def _backward_group(
    rows, part, places, walk, sums, alone, read_twice, with_gamma, with_sums, lag, streamed, scale, single
):
    """dx of the first group of `places`; returns sums read of the others, of groups and of single rows."""
    dy, x, _, _ = rows
    hidden, schedule = walk
    if lag is not None:
        most, rest = spans(places, hidden, width(scale))
        how = read_twice, with_gamma, with_sums, streamed, scale, single
        sums, alone = backward_columns(rows, part, most, walk, sums, alone, *how)
        return backward_columns(rows, part, rest, walk, sums, alone, *how)
    at, then, _ = places
    for j in range(0, hidden, width(scale)):
        prefetch_rows(x, 0, then, j, hidden, schedule, streamed, scale)
        prefetch_rows(dy, 1, then, j, hidden, schedule, streamed, scale)
        here, there = (at + j, hidden, j), (then + j, hidden, j)
        sums, _ = backward_line(
            rows, part, here, there, None, part, sums, read_twice, with_gamma, with_sums, streamed, scale
        )
    return sums, alone


@njit(**INLINE)
def _forward_group(rows, places, walk, sums, alone, read_twice, with_gamma, lag, streamed, scale, single):
    """y of the first group of `places`; returns sums as `_backward_group`."""
    hidden, schedule = walk
    if lag is not None:
        most, rest = spans(places, hidden, width(scale))
        how = read_twice, with_gamma, streamed, scale, single
        sums, alone = forward_columns(rows, most, walk, sums, alone, *how)
        return forward_columns(rows, rest, walk, sums, alone, *how)
    at, then, _ = places
    for j in range(0, hidden, width(scale)):
        prefetch_rows(rows[0], 0, then, j, hidden, schedule, streamed, scale)
        here, there = (at + j, hidden, j), (then + j, hidden, j)
        sums = forward_line(rows, here, there, None, sums, read_twice, with_gamma, streamed, scale)
    return sums, alone


@njit(**INLINE)
def _places(i, end, group, hidden):
    """Elements at which the group at row i and the next two begin; of a missing group, the first again."""
    then = i + group if i + group < end else i
    later = i + 2 * group if i + 2 * group < end else i
    return i * hidden, then * hidden, later * hidden


@njit(**PLAIN)
def _backward_task(
    rows, part, span, how, total, read_twice, with_gamma, with_sums, lag, streamed, scale, single
):
    """The groups of a span of rows; the sums of what is read twice are added to `total`."""
    align_stack()
    hidden, distance = how
    i, end = span
    group, zero, own = height(scale), fold(full(0, scale)), fold(full(0, single))
    walk, sums, alone = (hidden, prefetch_schedule(hidden, distance, scale)), (zero, zero), (own, own)
    while i < end:
        given = (
            rows,
            part,
            _places(i, end, group, hidden),
            walk,
            sums,
            alone,
            read_twice,
            with_gamma,
            with_sums,
        )
        sums, alone = _backward_group(*given, lag, streamed, scale, single)
        i += group
    for which in range(2):
        place = which * width(own)
        put(add_rows(line(total, place, own), sums[which]) + alone[which], total, place)
    fence()


@njit(**PLAIN)
def _forward_task(rows, span, how, total, read_twice, with_gamma, lag, streamed, scale, single):
    align_stack()
    hidden, distance = how
    i, end = span
    group, sums, alone = height(scale), fold(full(0, scale)), fold(full(0, single))
    walk = hidden, prefetch_schedule(hidden, distance, scale)
    while i < end:
        given = rows, _places(i, end, group, hidden), walk, sums, alone, read_twice, with_gamma
        sums, alone = _forward_group(*given, lag, streamed, scale, single)
        i += group
    put(add_rows(line(total, 0, alone), sums) + alone, total, 0)
    fence()


@njit(**PLAIN)
def _backward_step(step, given, lag, streamed, scale, single):
    if step == 0:
        _backward_task(*given, None, None, None, lag, streamed, scale, single)
    elif step == 1:
        _backward_task(*given, True, None, None, lag, streamed, scale, single)
    elif step == 2:
        _backward_task(*given, True, True, None, lag, streamed, scale, single)
    else:
        _backward_task(*given, True, True, True, lag, streamed, scale, single)


@njit(**PLAIN)
def _forward_step(step, given, lag, streamed, scale, single):
    if step == 0:
        _forward_task(*given, None, None, lag, streamed, scale, single)
    elif step == 1:
        _forward_task(*given, True, None, lag, streamed, scale, single)
    else:
        _forward_task(*given, True, True, lag, streamed, scale, single)


@njit(**PLAIN)
def _rows_of(span, units, rows, group):
    """First and last row of a span (from, to) of the units, in whole groups."""
    groups = rows // group
    return span[0] * groups // units * group, span[1] * groups // units * group


def _backward(sources, group, lag, streamed):
    lag = lag if group == 2 else None

    def backward(step, dy, x, gamma, dx, dgamma, dbeta, seen, held, places, pieces, distance, factor):
        _ = sources
        vector, _, _, parts, _ = cut_backward(held, places, gamma)
        hidden, rows = gamma.size, x.size // gamma.size
        read = elements(dy), elements(x), elements(vector), elements(dx)
        counters, like, alone = untaken(len(pieces)), zeros(x, group), zeros(x, 1)
        for task in prange(len(pieces)):
            span, part, total = next_piece(pieces, counters, task), parts[task], elements(seen[task])
            scale, single = full(factor, by_parity(like)), full(factor, by_parity(alone))
            part[:] = 0
            running = elements(part_row(part, 0, 2, hidden)), elements(part_row(part, 1, 2, hidden))
            while span[0] < span[1]:
                given = read, running, _rows_of(span, pieces[-1, -1], rows, group), (hidden, distance), total
                _backward_step(step, given, lag, streamed, scale, single)
                span = next_piece(pieces, counters, task)
        dgamma[:] = 0
        dbeta[:] = 0
        for task in range(len(pieces)):
            dgamma += part_row(parts[task], 0, 2, hidden)[:hidden]
            dbeta += part_row(parts[task], 1, 2, hidden)[:hidden]

    return backward


def _forward(sources, group, lag, streamed):
    lag = lag if group > 1 else None

    def forward(step, x, gamma, beta, y, seen, held, places, pieces, distance, factor):
        _ = sources
        vectors = cut_forward(held, places, gamma, beta)
        hidden, rows = gamma.size, x.size // gamma.size
        read = elements(x), elements(vectors[0]), elements(vectors[1]), elements(y)
        counters, like, alone = untaken(len(pieces)), zeros(x, group), zeros(x, 1)
        for task in prange(len(pieces)):
            span, total = next_piece(pieces, counters, task), elements(seen[task])
            scale, single = full(factor, by_parity(like)), full(factor, by_parity(alone))
            while span[0] < span[1]:
                given = read, _rows_of(span, pieces[-1, -1], rows, group), (hidden, distance), total
                _forward_step(step, given, lag, streamed, scale, single)
                span = next_piece(pieces, counters, task)

    return forward


@cache
def compiled(direction: str, group: int, lag: bool, streamed: bool) -> Callable[..., None]:
    """The loops of all steps of a direction, compiled at the first call for a dtype.

    The first argument is the index of the step. The others are as in `numba_passes`, but for `seen`, (tasks,
    two lines or more), to which the sums of what is read twice are added.
    """
    loops, way = (
        {"forward": _forward, "backward": _backward}[direction],
        (group, lag or None, streamed or None),
    )
    return njit(parallel=True, cache=True, **PLAIN)(named(loops(_SOURCES, *way), *way))

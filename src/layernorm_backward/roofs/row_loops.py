"""The compiled loops of `row_streams`: a group of rows at a time, as numba_fused walks through them.

Arguments and names are those of `numba_backward` and `numba_forward`. `again`, `weighed` and `added` say
which accesses a loop makes, and `streamed` how it writes: True or None, known when it is compiled.
"""

from collections.abc import Callable
from functools import cache

from numba import njit, prange

from layernorm_backward.kernels.lane_memory import (
    align_stack,
    elements,
    fence,
    line,
    load,
    put_line,
    store,
    stream,
    take,
)
from layernorm_backward.kernels.lanes import (
    add_rows,
    by_parity,
    fold,
    height,
    repeat,
    spread,
    width,
    zeros1,
    zeros2,
    zeros4,
)
from layernorm_backward.kernels.numba_scratch import cut_backward, cut_forward, part_row
from layernorm_backward.kernels.numba_walk import INLINE, PLAIN, ask, asked
from layernorm_backward.kernels.sources import checksum


@njit(**INLINE)
def _put(values, out, start, hidden, streamed):
    if streamed is None:
        store(values, out, start, hidden, None)
    else:
        stream(values, out, start, hidden)


@njit(**INLINE)
def _backward_group(rows, part, at, then, walk, sums, again, weighed, added, streamed, scale):
    """dx of the group at element `at`; the sums of what is read of that at `then`, where that is wanted."""
    dy, x, gamma, dx = rows
    hidden, early = walk
    for j in range(0, hidden, width(scale)):
        ask(x, 0, then, j, hidden, early, scale)
        ask(dy, 1, then, j, hidden, early, scale)
        factor = scale if weighed is None else repeat(line(gamma, j, scale), scale)
        if again is not None:
            g = factor * load(dy, then + j, hidden, None, scale)
            sums = sums[0] + fold(load(x, then + j, hidden, None, scale)), sums[1] + fold(g)
        d, value = load(dy, at + j, hidden, None, scale), load(x, at + j, hidden, None, scale)
        _put(value + factor * d, dx, at + j, hidden, streamed)
        if added is not None:
            put_line(add_rows(line(part[0], j, d), value), part[0], j)
            put_line(add_rows(line(part[1], j, d), d), part[1], j)
    return sums


@njit(**INLINE)
def _forward_group(rows, at, then, walk, sums, again, weighed, streamed, scale):
    """y of the group at element `at`; the sum of what is read of that at `then`, where that is wanted."""
    x, gamma, beta, y = rows
    hidden, early = walk
    for j in range(0, hidden, width(scale)):
        ask(x, 0, then, j, hidden, early, scale)
        if again is not None:
            sums = sums + fold(load(x, then + j, hidden, None, scale))
        value = load(x, at + j, hidden, None, scale)
        if weighed is None:
            value = scale * value
        else:
            value = repeat(line(gamma, j, scale), scale) * value + repeat(line(beta, j, scale), scale)
        _put(value, y, at + j, hidden, streamed)
    return sums


@njit(**PLAIN)
def _backward_task(rows, part, span, how, total, again, weighed, added, streamed, scale):
    """The groups of a span of rows; the sums of what is read again are added to `total`."""
    align_stack()
    hidden, distance = how
    i, end = span
    group, zero = height(scale), fold(spread(0, scale))
    walk, sums = (hidden, asked(hidden, distance, scale)), (zero, zero)
    while i < end:
        then = (i + group if i + group < end else i) * hidden
        sums = _backward_group(
            rows, part, i * hidden, then, walk, sums, again, weighed, added, streamed, scale
        )
        i += group
    put_line(add_rows(line(total, 0, zero), sums[0]), total, 0)
    put_line(add_rows(line(total, width(zero), zero), sums[1]), total, width(zero))
    fence()


@njit(**PLAIN)
def _forward_task(rows, span, how, total, again, weighed, streamed, scale):
    align_stack()
    hidden, distance = how
    i, end = span
    group, sums = height(scale), fold(spread(0, scale))
    walk = hidden, asked(hidden, distance, scale)
    while i < end:
        then = (i + group if i + group < end else i) * hidden
        sums = _forward_group(rows, i * hidden, then, walk, sums, again, weighed, streamed, scale)
        i += group
    put_line(add_rows(line(total, 0, sums), sums), total, 0)
    fence()


@njit(**PLAIN)
def _backward_step(step, given, streamed, scale):
    if step == 0:
        _backward_task(*given, None, None, None, streamed, scale)
    elif step == 1:
        _backward_task(*given, True, None, None, streamed, scale)
    elif step == 2:
        _backward_task(*given, True, True, None, streamed, scale)
    else:
        _backward_task(*given, True, True, True, streamed, scale)


@njit(**PLAIN)
def _forward_step(step, given, streamed, scale):
    if step == 0:
        _forward_task(*given, None, None, streamed, scale)
    elif step == 1:
        _forward_task(*given, True, None, streamed, scale)
    else:
        _forward_task(*given, True, True, streamed, scale)


@njit(**PLAIN)
def _rows_of(piece, pieces, rows, group):
    """The rows of a piece, in whole groups."""
    groups, units = rows // group, pieces[-1]
    return pieces[piece] * groups // units * group, pieces[piece + 1] * groups // units * group


def _backward(sources, group, streamed):
    def backward(
        step, dy, x, gamma, dx, dgamma, dbeta, seen, held, places, pieces, counter, tasks, distance, factor
    ):
        _ = sources
        vector, _, _, parts, _ = cut_backward(held, places, gamma)
        hidden, rows = gamma.size, x.size // gamma.size
        read = elements(dy), elements(x), elements(vector), elements(dx)
        for task in prange(tasks):
            piece, part, total, one = take(counter), parts[task], elements(seen[task]), zeros1(x)
            part[:] = 0
            running = elements(part_row(part, 0, 2, hidden)), elements(part_row(part, 1, 2, hidden))
            while piece + 1 < pieces.size:
                given = read, running, _rows_of(piece, pieces, rows, group), (hidden, distance), total
                if group == 4:
                    _backward_step(step, given, streamed, spread(factor, by_parity(zeros4(x))))
                elif group == 2:
                    _backward_step(step, given, streamed, spread(factor, by_parity(zeros2(x))))
                else:
                    _backward_step(step, given, streamed, spread(factor, by_parity(one)))
                piece = take(counter)
        dgamma[:] = 0
        dbeta[:] = 0
        for task in range(tasks):
            dgamma += part_row(parts[task], 0, 2, hidden)[:hidden]
            dbeta += part_row(parts[task], 1, 2, hidden)[:hidden]

    return backward


def _forward(sources, group, streamed):
    def forward(step, x, gamma, beta, y, seen, held, places, pieces, counter, tasks, distance, factor):
        _ = sources
        vectors = cut_forward(held, places, gamma, beta)
        hidden, rows = gamma.size, x.size // gamma.size
        read = elements(x), elements(vectors[0]), elements(vectors[1]), elements(y)
        for task in prange(tasks):
            piece, total, one = take(counter), elements(seen[task]), zeros1(x)
            while piece + 1 < pieces.size:
                given = read, _rows_of(piece, pieces, rows, group), (hidden, distance), total
                if group == 4:
                    _forward_step(step, given, streamed, spread(factor, by_parity(zeros4(x))))
                elif group == 2:
                    _forward_step(step, given, streamed, spread(factor, by_parity(zeros2(x))))
                else:
                    _forward_step(step, given, streamed, spread(factor, by_parity(one)))
                piece = take(counter)

    return forward


@cache
def compiled(direction: str, group: int, streamed: bool) -> Callable[..., None]:
    """The loops of all steps of a direction, compiled at the first call for a dtype.

    The first argument is the number of the step; those behind it are as in `numba_chunks`, and `seen`
    (tasks, two lines or more), to which the sums of what is read again are added.
    """
    loops = {"forward": _forward, "backward": _backward}[direction]
    return njit(parallel=True, cache=True, **PLAIN)(loops(checksum(), group, streamed or None))

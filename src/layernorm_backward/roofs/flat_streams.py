"""Copy and triad with all threads, with ordinary and with non-temporal stores, compiled by Numba.

With non-temporal stores, lines are prefetched in order, or interleaved over several pages, as in numba_fused.
A non-temporal store writes a whole cache line without reading it first (no write-allocate). It must be
aligned to its own size, and a fence orders all of them at the end. A copy moves storage unchanged; a triad of
16-bit storage, passed as `lane_memory` stores it, is computed in float32 and rounded.
"""

import platform
from collections.abc import Callable
from functools import cache

from numba import njit, prange

from layernorm_backward.kernels import processor
from layernorm_backward.kernels.lane_memory import (
    fence,
    load,
    store,
    stream,
    stream_line,
)
from layernorm_backward.kernels.lanes import LINE, by_parity, full, multiply_add, width, zeros
from layernorm_backward.kernels.numba_sharing import next_piece, untaken
from layernorm_backward.kernels.numba_walk import interleaved, page_interleave, prefetch_line
from layernorm_backward.kernels.sources import checksum

COPY_AHEAD, TRIAD_AHEAD = 32, (44, 60)  # prefetch distances in lines, the fastest beyond the cache
PAGE, PAGES = 64, 8  # lines of a page; pages over which prefetches are interleaved
PREFETCH = not processor.traits().prefetch_to_l2  # else its own prefetchers are faster, for lines in order


@cache
def non_temporal_missing() -> str:
    """Empty where non-temporal stores are available, else the reason why they are not."""
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64", "aarch64", "arm64"):
        return ""
    return f"no non-temporal store is known for the architecture {machine}"


@njit
def _copy(a, b):
    for i in range(a.size):
        a[i] = b[i]


@njit
def _copy_nt(a, b, ahead, pages):
    like = zeros(a, 1)
    lanes = width(like)
    whole, interleave = a.size - a.size % lanes, page_interleave(ahead * lanes, pages, lanes)
    for i in range(0, whole, lanes):
        if PREFETCH or pages > 1:
            prefetch_line(b, interleaved(i, interleave), like)
        stream_line(b, i, a, i)
    _copy(a[whole:], b[whole:])
    fence()


@njit(forceinline=True)
def _scaled_sum(b, c, scale, i, count):
    return multiply_add(scale, load(c, i, 0, count, scale), load(b, i, 0, count, scale))


@njit
def _triad(a, b, c, s):
    scale = full(s, by_parity(zeros(a, 1)))
    lanes = width(scale)
    whole = a.size - a.size % lanes
    for i in range(0, whole, lanes):
        store(_scaled_sum(b, c, scale, i, None), a, i, 0, None)
    if whole < a.size:
        store(_scaled_sum(b, c, scale, whole, a.size - whole), a, whole, 0, a.size - whole)


@njit
def _triad_nt(a, b, c, s, ahead, pages):
    scale = full(s, by_parity(zeros(a, 1)))
    lanes = width(scale)
    whole = a.size - a.size % lanes
    first, second = (
        page_interleave(ahead[0] * lanes, pages, lanes),
        page_interleave(ahead[1] * lanes, pages, lanes),
    )
    for i in range(0, whole, lanes):
        if PREFETCH or pages > 1:
            prefetch_line(b, interleaved(i, first), scale)
            prefetch_line(c, interleaved(i, second), scale)
        stream(_scaled_sum(b, c, scale, i, None), a, i, 0)
    _triad(a[whole:], b[whole:], c[whole:], s)
    fence()


@njit
def _part(operation, a, b, c, s):
    if operation == 0:
        _copy(a, b)
    elif operation == 1:
        _copy_nt(a, b, COPY_AHEAD, 1)
    elif operation == 2:
        _copy_nt(a, b, PAGE, PAGES)
    elif operation == 3:
        _triad(a, b, c, s)
    elif operation == 4:
        _triad_nt(a, b, c, s, TRIAD_AHEAD, 1)
    else:
        _triad_nt(a, b, c, s, (PAGE, PAGE), PAGES)


@njit
def part_of(span, units, lines, lanes):
    """First and last element of a span (from, to) of the units, of an array of so many lines."""
    return span[0] * lines // units * lanes, span[1] * lines // units * lanes


def _streams(sources):
    def streams(operation, a, b, c, s, pieces):
        _ = sources
        lanes = LINE // a.itemsize
        lines = a.size // lanes
        units = pieces[-1, -1]
        counters = untaken(len(pieces))
        for task in prange(len(pieces)):
            span = next_piece(pieces, counters, task)
            while span[0] < span[1]:
                start, end = part_of(span, units, lines, lanes)
                if span[1] == units:
                    end = a.size
                _part(operation, a[start:end], b[start:end], c[start:end], s)
                span = next_piece(pieces, counters, task)

    return streams


@cache
def streams() -> Callable[..., None]:
    """streams(operation, a, b, c, s, pieces), compiled at its first call for a dtype.

    a, b, c: (n,) as `lane_memory` stores them, shared in parts of whole lines as in `numba_sharing`.
    """
    return njit(parallel=True, cache=True)(_streams(checksum()))

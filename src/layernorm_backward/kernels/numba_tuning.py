"""How many rows numba_fused works on at a time, and how far ahead it prefetches: the fastest, by row bytes.

Measured on Xeons of the fifth and sixth generation (`_l1_...`), on a Zen 4 with AVX-512 (`_l2_...`) and on
one without, and on a Zen 3, which is fastest with single rows. No bit of a result depends on it.
"""

from typing import NamedTuple

import numpy as np

from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.kernels.numba_ring import DELAY
from layernorm_backward.kernels.processor import Traits

PAGE = 4096  # bytes: rows up to this length are faster one by one
SHORT = 3 * PAGE  # bytes: up to this length, rows with a remainder (a partial last line) go one by one
PAGES = 8  # pages of interleaved prefetches, where lines come from memory: 4 and 16 are nearly as fast
PAGED, PAGED_BACKWARD = 2 * PAGE, 3 * PAGE // 2  # bytes: up to this length, such rows are faster one by one
PAGED_NARROW = {"forward": (7 * LINE, 13 * PAGE // 8), "backward": (4 * LINE, PAGE)}  # 16-bit: from, to
FOUR = 3 * PAGE // 4  # bytes: from this length on, groups of four rows are faster forward
FEW_LINES = 128  # bytes, 16-bit forward: up to this length, groups of four rows are faster
NEXT_PAGE = 44  # lines ahead of a single row: hardware prefetchers restart at each page; 44 to 63 are as fast
SPREAD = 32  # lines: simultaneous prefetches of the same address modulo 4096 are slower
LONG = {"forward": 32, "backward": 16}  # rows that fill L2: of longer rows, smaller groups are faster
HUGE = 4  # rows that fill L2, backward: sums of longer rows are in L3, and a group shares the traffic to them
IN_ORDER = 8 * PAGE  # bytes, backward: longer rows from memory are faster one by one, in pages, than in pairs
L2_AHEAD, L2_SPREAD = 96, 16  # lines, prefetched to the second level: 64 to 160 and 8 to 28 are as fast
FARTHER, NEAREST = 16, 8  # lines: see `_l2_ahead`
SINGLE_IN_CACHE = 2 * PAGE  # bytes, forward: from FOUR to this length, single rows are faster in the caches
UNAIDED = 3 * PAGE // 4  # bytes, backward: pairs up to this length are faster in the caches without prefetch
L2_FOUR = 5 * PAGE // 4  # bytes: two such rows, gamma and beta fit into a first-level cache of 32 KB
LONG_NARROW = 16 * PAGE  # bytes, 16-bit rows
QUARTER_L1 = 8192  # bytes: a quarter of a first-level cache of 32 KB


class Tuning(NamedTuple):
    """group: rows at a time. ahead, spread: lines. These, pages and lag are as in `numba_plan.Plan`."""

    group: int
    ahead: int
    spread: int = SPREAD
    lag: bool = False
    pages: int = 1


_IN_PAGES = Tuning(1, PAGE // LINE, 0, pages=PAGES)


def choose(
    row_bytes: int,
    dtype: np.dtype,
    direction: str,
    l2: int,
    traits: Traits,
    stream: bool = True,
    memory: bool = True,
) -> Tuning:
    """The tuning for rows of `row_bytes` bytes and a second-level cache of `l2` bytes.

    stream: as in `numba_plan.Plan`. memory: whether x and the result exceed the last-level cache.
    """
    narrow, l2_prefetch = dtype.itemsize == 2, traits.prefetch_to_l2
    if l2_prefetch and not traits.few_registers:
        tuning = _l2_forward(row_bytes, dtype) if direction == "forward" else _l2_backward(row_bytes, narrow)
    else:
        tuning = (_l1_forward if direction == "forward" else _l1_backward)(row_bytes, narrow, l2)
        if traits.few_registers:
            pairs = (
                direction == "forward" and not narrow and row_bytes > QUARTER_L1 and not traits.single_rows
            )
            tuning = tuning._replace(group=2 if pairs else 1)
        elif not stream:
            tuning = _in_cache(tuning, row_bytes, narrow, direction, traits.short_alone)
        elif memory:
            tuning = _from_memory(tuning, row_bytes, narrow, direction, traits)
        tuning = Tuning(tuning.group, L2_AHEAD, 0) if l2_prefetch else tuning
    tuning = _ragged(tuning, row_bytes, direction, traits) if row_bytes % LINE else tuning
    return tuning._replace(ahead=_l2_ahead(row_bytes)) if l2_prefetch and tuning.group == 1 else tuning


def ragged_group(group: int, row_bytes: int, direction: str, traits: Traits) -> int:
    """Rows at a time where rows have a remainder: only long ones, forward, on a Xeon gain by a group."""
    on_xeon = not (traits.few_registers or traits.prefetch_to_l2)
    return group if direction == "forward" and row_bytes > SHORT and on_xeon else 1


def _ragged(tuning: Tuning, row_bytes: int, direction: str, traits: Traits) -> Tuning:
    group = ragged_group(tuning.group, row_bytes, direction, traits)
    if traits.prefetch_to_l2:
        return Tuning(group, L2_AHEAD, 0)
    if tuning.pages > 1:
        return tuning
    ahead = NEXT_PAGE if row_bytes <= SHORT else tuning.ahead
    return tuning._replace(group=group, ahead=ahead, spread=SPREAD)


def _l2_ahead(row_bytes: int) -> int:
    """The prefetch distance of a single row, in lines.

    Results of a row are written while the next is read. Prefetching an address that equals theirs modulo a
    page is slower: a pass takes 7 to 44 % more time. Where fewer than NEAREST lines would be between the two,
    the distance is FARTHER lines longer.
    """
    delay = DELAY if row_bytes % LINE else 0
    gap = (row_bytes // LINE + L2_AHEAD + delay) % (PAGE // LINE)
    return L2_AHEAD + (FARTHER if min(gap, PAGE // LINE - gap) < NEAREST else 0)


def _l1_backward(row_bytes: int, narrow: bool, l2: int) -> Tuning:
    summed = row_bytes * (2 if narrow else 1)  # bytes of a row of sums
    if summed >= l2 // HUGE:
        return Tuning(4, 16)
    return Tuning(2, 16) if row_bytes > PAGE and summed <= l2 // LONG["backward"] else Tuning(1, NEXT_PAGE)


def _l1_forward(row_bytes: int, narrow: bool, l2: int) -> Tuning:
    long = l2 // LONG["forward"]
    if FOUR <= row_bytes <= long or (narrow and row_bytes <= FEW_LINES):
        return Tuning(4, 12)  # the statistics of several rows take the time of one
    few_lines = narrow and row_bytes < PAGE // 4
    return Tuning(2, 16) if row_bytes > long or few_lines else Tuning(1, 40)


def _from_memory(tuning: Tuning, row_bytes: int, narrow: bool, direction: str, traits: Traits) -> Tuning:
    """Where x comes from memory: prefetches interleaved over several pages get a fifth more bandwidth."""
    ragged = row_bytes % LINE > 0
    alone = ragged and ragged_group(tuning.group, row_bytes, direction, traits) == 1
    if direction == "backward" and not traits.paged_backward:
        return _backward_in_order(tuning, row_bytes, narrow, alone)
    forward = direction == "forward"
    if narrow:
        least, most = PAGED_NARROW[direction]
        single = row_bytes >= least and (row_bytes <= most or (alone and forward))
    else:
        single = alone or row_bytes <= (PAGED if forward else PAGED_BACKWARD)
    return _IN_PAGES if single else tuning


def _backward_in_order(tuning: Tuning, row_bytes: int, narrow: bool, alone: bool) -> Tuning:
    """The same on processors where pages are slower backward, but for long rows of which they keep up."""
    if row_bytes <= PAGED_BACKWARD:
        return tuning if narrow else Tuning(1, NEXT_PAGE)
    if narrow and tuning.group == 1:
        tuning = Tuning(2, 16)
    long = not narrow and tuning.group == 2 and row_bytes > IN_ORDER
    return _IN_PAGES if alone or long else tuning


def _in_cache(tuning: Tuning, row_bytes: int, narrow: bool, direction: str, short_alone: bool) -> Tuning:
    """Where x is cache-resident: single rows are faster forward; backward pairs, which share their sums.

    Groups of four are faster from 3 to 32 KB only where all arrays begin at lines, as NumPy's do not.
    """
    if direction == "forward":
        return Tuning(1, 40) if FOUR <= row_bytes <= SINGLE_IN_CACHE else tuning
    if narrow or row_bytes > PAGE or (short_alone and row_bytes < PAGE // 4):
        return tuning
    return Tuning(2, 16) if short_alone or row_bytes > UNAIDED else Tuning(2, 0, 0)


def _l2_backward(row_bytes: int, narrow: bool) -> Tuning:
    if narrow:
        return Tuning(2 if row_bytes > LONG_NARROW else 1, L2_AHEAD, 0)
    return Tuning(2, L2_AHEAD, L2_SPREAD, lag=True) if row_bytes > PAGE else Tuning(1, L2_AHEAD, 0)


def _l2_forward(row_bytes: int, dtype: np.dtype) -> Tuning:
    if dtype.itemsize > 2:
        if row_bytes > L2_FOUR:
            return Tuning(4, L2_AHEAD, L2_SPREAD, lag=True)
        return Tuning(4 if row_bytes <= PAGE // 16 else 1, L2_AHEAD, 0)
    alone = LONG_NARROW if dtype == np.float16 else PAGE
    return Tuning(1 if PAGE // 8 < row_bytes <= alone else 2, L2_AHEAD, 0)

"""How many rows numba_fused works on at a time, and how far it asks ahead: what was fastest, by row bytes.

Measured on Xeons of the fifth and sixth generation (`_near_...`; of the fifth alone where x stays in the
caches, `_kept`), on a Zen 4 with AVX-512 (`_far_...`) and on one without, and on a Zen 3, which wants single
rows. No bit depends on it.
"""

from typing import NamedTuple

import numpy as np

from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.kernels.numba_ring import LATE

PAGE = 4096  # bytes: rows up to so many are faster one by one
SHORT = 3 * PAGE  # bytes: up to so many, rows that end within a line are worked on one by one
PAGES = 8  # in which lines are asked for in turn, where they come from memory: 4 and 16 are nearly as fast
PAGED, PAGED_BACKWARD = 2 * PAGE, 3 * PAGE // 2  # bytes: up to so many, such rows are faster one by one
PAGED_NARROW = {"forward": (7 * LINE, 13 * PAGE // 8), "backward": (4 * LINE, PAGE)}  # of 16 bits: from, to
FOUR = 3 * PAGE // 4  # bytes, forward: of longer rows, four side by side take less time
FEW_LINES = 128  # bytes of 16-bit rows, forward, so short that four at a time are faster
NEXT_PAGE = 44  # lines ahead of a single row: prefetchers begin anew with a page, and 44 to 63 are as fast
SPREAD = 32  # lines: what is asked for at once, at the same place modulo 4096, comes slower
LONG = {"forward": 32, "backward": 16}  # so many rows fill L2: of longer ones, fewer side by side are faster
HUGE = 4  # so many rows fill L2, backward: their sums are in L3, and several rows share the way there
FAR_AHEAD, FAR_SPREAD = 96, 16  # lines, for the second-level cache: 64 to 160 and 8 to 28 are as fast
FARTHER, NEAREST = 16, 8  # lines: see `_far_ahead`
KEPT = 2 * PAGE  # bytes: of longer rows in the caches, too, four side by side take less time
FAR_KEPT = 5 * PAGE // 4  # bytes: two rows, gamma and beta stay in a first-level cache of 32 KB
LONG_NARROW = 16 * PAGE  # bytes, of 16-bit rows
NEAR = 8192  # bytes: rows of a quarter of a first-level cache of 32 KB


class Pace(NamedTuple):
    """group: rows at a time. ahead, spread: lines, as in `numba_plan.Plan`. pages, lag: as there."""

    group: int
    ahead: int
    spread: int = SPREAD
    lag: bool = False
    pages: int = 1


def choose(
    row_bytes: int,
    dtype: np.dtype,
    direction: str,
    l2: int,
    few: bool,
    far: bool,
    stream: bool = True,
    memory: bool = True,
    single: bool = False,
) -> Pace:
    """The pace of rows of so many bytes, for a second-level cache of `l2` bytes.

    few, far, single: as `processor.few_registers`, `asks_far` and `single_rows` tell. stream: as in
    `numba_plan.Plan`. memory: whether x and the result are more than the caches hold.
    """
    narrow = dtype.itemsize == 2
    if far and not few:
        pace = _far_forward(row_bytes, dtype) if direction == "forward" else _far_backward(row_bytes, narrow)
    else:
        pace = (_near_forward if direction == "forward" else _near_backward)(row_bytes, narrow, l2)
        if few:
            pairs = direction == "forward" and not narrow and row_bytes > NEAR and not single
            pace = pace._replace(group=2 if pairs else 1)
        elif not stream:
            pace = _kept(pace, row_bytes, narrow, direction)
        elif memory:
            alone = row_bytes % LINE > 0 and ragged_group(pace.group, row_bytes, direction, few, far) == 1
            pace = _from_memory(pace, row_bytes, narrow, direction, alone)
        pace = Pace(pace.group, FAR_AHEAD, 0) if far else pace
    pace = _ragged(pace, row_bytes, direction, few, far) if row_bytes % LINE else pace
    return pace._replace(ahead=_far_ahead(row_bytes)) if far and pace.group == 1 else pace


def ragged_group(group: int, row_bytes: int, direction: str, few: bool, far: bool) -> int:
    """Rows at a time where rows have parts of lines: on a Xeon long ones gain by several, forward."""
    return group if direction == "forward" and row_bytes > SHORT and not (few or far) else 1


def _ragged(pace: Pace, row_bytes: int, direction: str, few: bool, far: bool) -> Pace:
    group = ragged_group(pace.group, row_bytes, direction, few, far)
    if far:
        return Pace(group, FAR_AHEAD, 0)
    if pace.pages > 1:
        return pace
    return pace._replace(group=group, ahead=NEXT_PAGE if row_bytes <= SHORT else pace.ahead)


def _far_ahead(row_bytes: int) -> int:
    """Lines ahead of a single row, none of which lies where results are being written, modulo a page.

    Such lines come slower: a pass takes 7 to 44 % more time. Results of a row are written while the next
    is read. FARTHER are asked for where fewer than NEAREST would be between them.
    """
    late = LATE if row_bytes % LINE else 0
    gap = (row_bytes // LINE + FAR_AHEAD + late) % (PAGE // LINE)
    return FAR_AHEAD + (FARTHER if min(gap, PAGE // LINE - gap) < NEAREST else 0)


def _near_backward(row_bytes: int, narrow: bool, l2: int) -> Pace:
    summed = row_bytes * (2 if narrow else 1)  # bytes of a row of sums
    if summed >= l2 // HUGE:
        return Pace(4, 16)
    return Pace(2, 16) if row_bytes > PAGE and summed <= l2 // LONG["backward"] else Pace(1, NEXT_PAGE)


def _near_forward(row_bytes: int, narrow: bool, l2: int) -> Pace:
    long = l2 // LONG["forward"]
    if FOUR <= row_bytes <= long or (narrow and row_bytes <= FEW_LINES):
        return Pace(4, 12)  # statistics of several rows take the time of one
    few_lines = narrow and row_bytes < PAGE // 4
    return Pace(2, 16) if row_bytes > long or few_lines else Pace(1, 40)


def _from_memory(pace: Pace, row_bytes: int, narrow: bool, direction: str, alone: bool) -> Pace:
    """Where x comes from memory, which gives a fifth more to who asks in several pages at once.

    alone: whether these are single rows anyway.
    """
    forward = direction == "forward"
    if narrow:
        least, most = PAGED_NARROW[direction]
        single = row_bytes >= least and (row_bytes <= most or (alone and forward))
    else:
        single = alone or row_bytes <= (PAGED if forward else PAGED_BACKWARD)
    return Pace(1, PAGE // LINE, 0, pages=PAGES) if single else pace


def _kept(pace: Pace, row_bytes: int, narrow: bool, direction: str) -> Pace:
    """Where x stays in the caches: there single rows are faster forward, and pairs of rows backward."""
    if direction == "forward":
        return Pace(1, 40) if FOUR <= row_bytes <= KEPT else pace
    return Pace(2, 16) if not narrow and PAGE // 4 <= row_bytes <= PAGE else pace


def _far_backward(row_bytes: int, narrow: bool) -> Pace:
    if narrow:
        return Pace(2 if row_bytes > LONG_NARROW else 1, FAR_AHEAD, 0)
    return Pace(2, FAR_AHEAD, FAR_SPREAD, lag=True) if row_bytes > PAGE else Pace(1, FAR_AHEAD, 0)


def _far_forward(row_bytes: int, dtype: np.dtype) -> Pace:
    if dtype.itemsize > 2:
        if row_bytes > FAR_KEPT:
            return Pace(4, FAR_AHEAD, FAR_SPREAD, lag=True)
        return Pace(4 if row_bytes <= PAGE // 16 else 1, FAR_AHEAD, 0)
    alone = LONG_NARROW if dtype == np.float16 else PAGE
    return Pace(1 if PAGE // 8 < row_bytes <= alone else 2, FAR_AHEAD, 0)

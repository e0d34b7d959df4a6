"""How numba_fused works on rows of a given number, size and dtype: what is fixed, what the machine decides.

`chunks` and `block` fix the order in which dgamma and dbeta are added, so they depend on N and D alone, and
`recentre` is always set but for measuring. All else changes no bit; it comes from what was fastest at a row's
bytes (`numba_pace`), and from the processor and its caches: what these keep is tried (`numba_reach`).
"""

from functools import cache, lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numba import get_num_threads

from layernorm_backward import machine
from layernorm_backward.directions import TENSORS
from layernorm_backward.kernels import numba_pace, numba_reach, processor
from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.kernels.numba_walk import GROUPS, LEAD

BLOCK = 32  # rows at most: longer blocks spare time, shorter ones are more exact
WIDE, FEW = 4096, 16  # columns from which so few rows are a chunk: else few rows would keep one thread busy
MOST_CHUNKS = 64
SHAPES = 1024  # whose plans are kept: rows may differ in every call of a long run
VERY_SHORT = 128  # bytes
WIDENED = 2560 + LINE  # bytes of a 16-bit row: of more, or with results, the first-level cache is full
WIDENED_FORWARD = 5632 + LINE  # the same forward, where dy is not kept
WIDENED_FAR = 2048 + LINE  # the same on a Zen, in float16; in bfloat16 it brings nothing there
LONGEST = 24  # rows of 2**24 elements or more are worked on in one way
GRAIN = 1 << 18  # bytes of x, as it is worked on, for which it is worth to wake another thread
_WORKED_ON = 4  # bytes of an element of 16 bits, in the dtype of its sums
UNKNOWN_L2, UNKNOWN_LAST_LEVEL = 1 << 20, 32 << 20  # bytes, where the system does not tell


class Plan(NamedTuple):
    """What one call does.

    group: rows worked on at a time, 1, 2 or 4. ahead: cache lines between what is read and what is asked for.
    stream: whether the large result goes past the caches. chunks: of rows, each with sums of its
    own. block: rows whose dgamma and dbeta are added one after the other. stretch: rows whose mean and rstd
    are copied at a time before they are worked on; 0: none. spread: lines over which all that is asked for at
    once, of the rows of a group and of x and dy, is spread. pages: of `ahead` lines, in which single rows are
    asked for in turn, see `numba_walk.in_turn`; 1: one line after the other. widened: whether single rows are
    kept, in the dtype of the sums, between their two sweeps. lag: whether the lines of a group are kept apart
    in the first-level cache, as in `numba_lag_backward`. recentre: whether the mean is re-centred; without,
    for measuring what it costs.
    """

    group: int
    ahead: int
    stream: bool
    chunks: int
    block: int = BLOCK
    stretch: int = 0
    spread: int = 0
    pages: int = 1
    widened: bool = False
    lag: bool = False
    recentre: bool = True


def tasks(size: int, itemsize: int) -> int:
    """How many threads work on so many elements of so many bytes: all that are set, with GRAIN for each."""
    worth = size * (itemsize if itemsize > _WORKED_ON else _WORKED_ON) // GRAIN  # max() takes twice as long
    return min(worth, get_num_threads()) if worth > 1 else 1


def checked(plan: Plan) -> Plan:
    """The plan; ValueError where the kernel cannot follow it."""
    if plan.group not in GROUPS:
        raise ValueError(f"group is {plan.group}; allowed: {GROUPS}")
    if plan.block < 1 or plan.block % plan.group:
        raise ValueError(f"block is {plan.block}; allowed: multiples of the {plan.group} rows of a group")
    if plan.chunks < 1 or plan.ahead < 0 or plan.spread < 0:
        given = f"chunks is {plan.chunks}, ahead {plan.ahead}, spread {plan.spread}"
        raise ValueError(f"{given}; allowed: from 1, from 0, from 0")
    if not (plan.pages == 1 or (plan.group == 1 and _in_pages(plan))):
        given = f"pages is {plan.pages}, ahead {plan.ahead}, group {plan.group}"
        raise ValueError(f"{given}; allowed: 1 page, or powers of two, pages up to ahead, with a group of 1")
    if plan.stretch and plan.stretch < plan.block:
        raise ValueError(
            f"stretch is {plan.stretch}; allowed: 0 and from the {plan.block} rows of a block on"
        )
    return plan


def _in_pages(plan: Plan) -> bool:
    powers = all(number > 0 and number & (number - 1) == 0 for number in (plan.pages, plan.ahead))
    return powers and plan.pages <= plan.ahead


def choose(
    rows: int, hidden: int, dtype: np.dtype, direction: str = "backward", threads: int | None = None
) -> Plan:
    """The plan of a pass, "forward" or "backward", for x (rows, hidden); None: as many threads as are set."""
    how = processor.few_registers(), processor.asks_far(), processor.single_rows()
    return _chosen(rows, hidden, dtype, direction, *how, threads or get_num_threads())


@lru_cache(SHAPES)
def _chosen(
    rows: int, hidden: int, dtype: np.dtype, direction: str, few: bool, far: bool, single: bool, threads: int
) -> Plan:
    row_bytes, (l2, last_level) = hidden * dtype.itemsize, _caches()
    size = TENSORS[direction] * rows * row_bytes
    stream, memory = not stays(size, threads, direction), size > last_level
    pace = numba_pace.choose(row_bytes, dtype, direction, l2, few, far, stream, memory, single)
    alone = stream and direction == "backward" and pace.group == 1
    return Plan(
        pace.group,
        pace.ahead,
        stream,
        chunks(rows, hidden),
        block(rows, hidden),
        stretch=_stretch(row_bytes, l2) if alone and not far else 0,
        spread=pace.spread,
        pages=pace.pages,
        widened=stream and not few and _widened(row_bytes, dtype, direction, pace, far),
        lag=pace.lag,
    )


def stays(size: int, threads: int, direction: str) -> bool:
    """Whether so many bytes, of a pass by so many threads, stay in the caches; tried where no size tells."""
    l2, last_level = _caches()
    if size <= threads * l2 or size > last_level:
        return size <= last_level
    return size <= threads * numba_reach.of_thread(l2, last_level, direction)


def ways(dtype: np.dtype, direction: str) -> list[tuple[int, bool, bool, bool]]:
    """`group`, whether rows have parts of lines, `widened` and `lag`: for one row of a size or many."""
    found, how = set(), (processor.few_registers(), processor.asks_far())
    for rows, power in product((1, 1 << LONGEST), range(LONGEST)):
        plan = choose(rows, 1 << power, dtype, direction)
        alone = numba_pace.ragged_group(plan.group, dtype.itemsize << power, direction, *how)
        found |= {(plan.group, False, plan.widened, plan.lag), (alone, True, plan.widened, False)}
    return sorted(found)


def _widened(row_bytes: int, dtype: np.dtype, direction: str, pace: numba_pace.Pace, far: bool) -> bool:
    """Whether single rows of 16 bits are kept wide: forward where that was measured, with several pages."""
    if dtype.itemsize > 2:
        return False
    if direction == "forward":
        return pace.pages > 1 and row_bytes <= WIDENED_FORWARD
    return dtype == np.float16 and row_bytes <= WIDENED_FAR if far else row_bytes <= WIDENED


def _stretch(row_bytes: int, l2: int) -> int:
    """Rows of x and dy that fill L2, of short ones; a line of statistics between theirs costs 15 of them."""
    return max(BLOCK, l2 // (2 * row_bytes)) if VERY_SHORT < row_bytes <= numba_pace.SHORT else 0


def chunks(rows: int, hidden: int) -> int:
    """A power of two: a chunk has at least 64 rows where there are more than 8, 32 where there are less.

    Wide rows have a chunk for each block, up to 4.
    """
    wanted = max(min(rows // 32, 8), rows // 64, min(-(-rows // FEW), 4) if hidden >= WIDE else 0, 1)
    return min(1 << (wanted.bit_length() - 1), MOST_CHUNKS)


def block(rows: int, hidden: int) -> int:
    """Rows whose dgamma and dbeta are added one after the other: a chunk's, up to BLOCK at a time."""
    share = -(-rows // chunks(rows, hidden))
    blocks, step = max(1, -(-share // BLOCK)), max(GROUPS)
    return max(1, -(-share // (blocks * step))) * step


def lags(plan: Plan, columns: int, lanes: int) -> bool:
    """Whether a plan keeps the lines of a group apart, and rows of so many columns are long enough for it."""
    return plan.lag and plan.group > 1 and columns >= 2 * LEAD * lanes


@cache
def _caches() -> tuple[int, int]:
    sizes = machine.cache_bytes()
    return sizes.get("l2") or UNKNOWN_L2, sizes.get("last_level") or UNKNOWN_LAST_LEVEL

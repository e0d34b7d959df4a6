"""How numba_fused works on rows of a given number, size and dtype: what is fixed, what the machine decides.

`chunks` and `block` fix the order in which dgamma and dbeta are added, so they depend on N and D
alone. `group`, `ahead`, `spread`, `stream`, `stretch` and `widened` change no bit; they come from what was
fastest at a row's bytes, and from the processor and its caches: what these keep is tried (`numba_reach`).
"""

from functools import cache, lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numba import get_num_threads

from layernorm_backward import machine
from layernorm_backward.kernels import numba_reach, processor
from layernorm_backward.kernels.lanes import LINE

BLOCK = 32  # rows at most: longer blocks spare time, shorter ones are more exact
WIDE, FEW = 4096, 16  # columns from which so few rows are a chunk: else few rows would keep one thread busy
MOST_CHUNKS = 64
SHAPES = 1024  # whose plans are kept: rows may differ in every call of a long run
GROUPS = (1, 2, 4)  # rows
ARRAYS = {"forward": 2, "backward": 3}  # of x's size, that a pass touches
PAGE = 4096  # bytes: rows up to so many are faster one by one
VERY_SHORT = 128  # bytes
WIDENED = 2048 + LINE  # bytes of a float16 row: of more, or with results, the first-level cache is full
SHORT = 3 * PAGE  # bytes: up to so many, rows that end within a line are worked on one by one
NEXT_PAGE = 44  # lines ahead of a single row: prefetchers begin anew with a page, and 44 to 63 are as fast
LONG = {"forward": 32, "backward": 16}  # so many rows fill L2: of longer ones, fewer side by side are faster
LONGEST = 24  # rows of 2**24 elements or more are worked on in one way
NEAR = 8192  # bytes: rows of a quarter of a first-level cache of 32 KB
SPREAD = 32  # lines: what is asked for at once, at the same place modulo 4096, comes slower
FAR_AHEAD = 96  # lines, where the second-level cache is asked: 64 to 256 are as fast
UNKNOWN_L2, UNKNOWN_LAST_LEVEL = 1 << 20, 32 << 20  # bytes, where the system does not tell


class Plan(NamedTuple):
    """What one call does.

    group: rows worked on at a time, 1, 2 or 4. ahead: cache lines between what is read and what is asked for.
    stream: whether the large result goes past the caches. chunks: of rows, each with sums of its
    own. block: rows whose dgamma and dbeta are added one after the other. stretch: rows whose mean and rstd
    are copied at a time before they are worked on; 0: none. spread: lines over which all that is asked for at
    once, of the rows of a group and of x and dy, is spread. widened: whether single rows are kept, in the
    dtype of the sums, between their two sweeps. recentre: whether the mean is re-centred; without, for
    measuring what it costs.
    """

    group: int
    ahead: int
    stream: bool
    chunks: int
    block: int = BLOCK
    stretch: int = 0
    spread: int = 0
    widened: bool = False
    recentre: bool = True


def checked(plan: Plan) -> Plan:
    """The plan; ValueError where the kernel cannot follow it."""
    if plan.group not in GROUPS:
        raise ValueError(f"group is {plan.group}; allowed: {GROUPS}")
    if plan.block < 1 or plan.block % plan.group:
        raise ValueError(f"block is {plan.block}; allowed: multiples of the {plan.group} rows of a group")
    if plan.chunks < 1 or plan.ahead < 0 or plan.spread < 0:
        given = f"chunks is {plan.chunks}, ahead {plan.ahead}, spread {plan.spread}"
        raise ValueError(f"{given}; allowed: from 1, from 0, from 0")
    if plan.stretch and plan.stretch < plan.block:
        raise ValueError(
            f"stretch is {plan.stretch}; allowed: 0 and from the {plan.block} rows of a block on"
        )
    return plan


def choose(
    rows: int, hidden: int, dtype: np.dtype, direction: str = "backward", threads: int | None = None
) -> Plan:
    """The plan of a pass, "forward" or "backward", for x (rows, hidden); None: as many threads as are set."""
    few, far = processor.few_registers(), processor.asks_far()
    return _chosen(rows, hidden, dtype, direction, few, far, threads or get_num_threads())


@lru_cache(SHAPES)
def _chosen(
    rows: int, hidden: int, dtype: np.dtype, direction: str, few: bool, far: bool, threads: int
) -> Plan:
    row_bytes = hidden * dtype.itemsize
    l2, _ = _caches()
    pace = {"forward": _forward_pace, "backward": _backward_pace}[direction]
    group, ahead = pace(row_bytes, dtype, l2 // LONG[direction])
    if few:
        group = _of_few_registers(row_bytes, dtype, direction)
    if row_bytes % LINE:
        group = ragged_group(group, row_bytes, direction)
        ahead = NEXT_PAGE if row_bytes <= SHORT else ahead
    ahead, spread = (FAR_AHEAD, 0) if far else (ahead, SPREAD)
    stream = not stays(ARRAYS[direction] * rows * row_bytes, threads)
    copied = stream and direction == "backward" and group == 1 and not far
    stretch = _stretch(row_bytes, l2) if copied else 0
    widened = copied and dtype == np.float16 and row_bytes <= WIDENED and not few
    return Plan(group, ahead, stream, chunks(rows, hidden), block(rows, hidden), stretch, spread, widened)


def stays(size: int, threads: int) -> bool:
    """Whether so many bytes, worked on by so many threads, stay in the caches; tried where no size tells."""
    l2, last_level = _caches()
    if size <= threads * l2 or size > last_level:
        return size <= last_level
    return size <= threads * numba_reach.of_thread(l2, last_level)


def ragged_group(group: int, row_bytes: int, direction: str) -> int:
    """Rows at a time where rows have parts of lines: only long ones of the forward pass gain by several."""
    return group if direction == "forward" and row_bytes > SHORT else 1


def ways(dtype: np.dtype, direction: str) -> list[tuple[int, bool, bool]]:
    """`group`, whether rows have parts of lines, and `widened`: for one row of a size or many."""
    found = set()
    for rows, power in product((1, 1 << LONGEST), range(LONGEST)):
        plan = choose(rows, 1 << power, dtype, direction)
        alone = ragged_group(plan.group, dtype.itemsize << power, direction)
        found |= {(plan.group, False, plan.widened), (alone, True, plan.widened)}
    return sorted(found)


def _backward_pace(row_bytes: int, dtype: np.dtype, long: int) -> tuple[int, int]:
    """Rows at a time and lines ahead."""
    return (2, 16) if PAGE < row_bytes <= long else (1, NEXT_PAGE)


def _stretch(row_bytes: int, l2: int) -> int:
    """Rows of x and dy that fill L2, of short ones; a line of statistics between theirs costs 15 of them."""
    return max(BLOCK, l2 // (2 * row_bytes)) if VERY_SHORT < row_bytes <= SHORT else 0


def _forward_pace(row_bytes: int, dtype: np.dtype, long: int) -> tuple[int, int]:
    """Rows at a time and lines ahead; statistics of several rows take the time of one."""
    if PAGE <= row_bytes <= long:
        return 4, 12
    few_lines = dtype.itemsize == 2 and row_bytes < PAGE // 4
    return (2, 16) if row_bytes > long or few_lines else (1, 40)


def _of_few_registers(row_bytes: int, dtype: np.dtype, direction: str) -> int:
    """Rows at a time: two of the forward pass, once gamma, beta and they do not stay in the first level."""
    return 2 if direction == "forward" and dtype.itemsize > 2 and row_bytes > NEAR else 1


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


@cache
def _caches() -> tuple[int, int]:
    sizes = machine.cache_bytes()
    return sizes.get("l2") or UNKNOWN_L2, sizes.get("last_level") or UNKNOWN_LAST_LEVEL

"""The plan by which numba_fused works on rows of a given number, size and dtype.

`chunks` and `block` fix the order in which dgamma and dbeta are summed, so they depend on N and D alone;
`recentre` is unset only to measure what it costs. No other field changes a bit of a result: they follow from
the processor and its caches, by what was fastest for the row's bytes (`numba_tuning`) and by a measurement of
what stays in the last-level cache (`numba_residency`).
"""

from functools import cache, lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numba import get_num_threads

from layernorm_backward import machine
from layernorm_backward.directions import TENSORS
from layernorm_backward.kernels import numba_residency, numba_tuning, processor
from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.kernels.numba_tuning import Tuning
from layernorm_backward.kernels.numba_walk import GROUPS, LEAD
from layernorm_backward.kernels.processor import Traits

BLOCK = 32  # rows at most: longer blocks save time, shorter ones round less
# From WIDE columns on, FEW rows make a chunk: else few rows would occupy one thread only.
WIDE, FEW = 4096, 16
MOST_CHUNKS = 64
SHAPES = 1024  # plans to cache: bounded, as the rows may differ in every call of a long run
VERY_SHORT = 128  # bytes
# Bytes of a 16-bit row: with longer ones, or with results as well, the first-level cache is full.
WIDENED = 2560 + LINE
WIDENED_FORWARD = 5632 + LINE  # the same forward, where there is no dy
WIDENED_ZEN = 2048 + LINE  # the same on a Zen, in float16; in bfloat16 it gains nothing there
LONGEST = 24  # all rows of 2**24 elements or more have the same code
GRAIN = 1 << 18  # bytes of x, in the dtype of its sums, that are worth another thread
_LEAST_WIDE = 4  # bytes of an element in the narrowest dtype of sums, that of 16-bit x
UNKNOWN_L2, UNKNOWN_LAST_LEVEL = 1 << 20, 32 << 20  # bytes, where the system does not report them


class Plan(NamedTuple):
    """What one call does.

    group: rows worked on at a time, 1, 2 or 4.
    ahead: the prefetch distance, in cache lines.
    stream: whether the large result is written by non-temporal stores.
    chunks: parts of the rows, each with partial sums of its own.
    block: rows whose dgamma and dbeta are added one after the other.
    stretch: rows whose mean and rstd are copied at a time before they are worked on; 0: none.
    spread: lines over which simultaneous prefetches, of the rows of a group and of x and dy, are spread.
    pages: pages of `ahead` lines over which the prefetches of single rows are interleaved, see
    `numba_walk.interleaved`; 1: one line after the other.
    widened: whether a single row is buffered in the dtype of the sums between its two sweeps.
    lag: whether each row of a group is a line behind the one before it, as in `numba_lag_backward`.
    recentre: whether the mean is re-centred; unset to measure what that costs.
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
    """Threads for `size` elements of `itemsize` bytes: all that are set, each with at least GRAIN bytes."""
    worth = size * (itemsize if itemsize > _LEAST_WIDE else _LEAST_WIDE) // GRAIN  # max() takes twice as long
    return min(worth, get_num_threads()) if worth > 1 else 1


def checked(plan: Plan) -> Plan:
    """The plan itself; ValueError where numba_fused cannot execute it."""
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
    return _chosen(rows, hidden, dtype, direction, processor.traits(), threads or get_num_threads())


@lru_cache(SHAPES)
def _chosen(rows: int, hidden: int, dtype: np.dtype, direction: str, traits: Traits, threads: int) -> Plan:
    row_bytes, (l2, last_level) = hidden * dtype.itemsize, _caches()
    size = TENSORS[direction] * rows * row_bytes
    stream, memory = not cache_resident(size, threads, direction), size > last_level
    tuning = numba_tuning.choose(row_bytes, dtype, direction, l2, traits, stream, memory)
    alone = stream and direction == "backward" and tuning.group == 1
    return Plan(
        tuning.group,
        tuning.ahead,
        stream,
        chunks(rows, hidden),
        block(rows, hidden),
        stretch=_stretch(row_bytes, l2) if alone and not traits.prefetch_to_l2 else 0,
        spread=tuning.spread,
        pages=tuning.pages,
        widened=stream and _widened(row_bytes, dtype, direction, tuning, traits),
        lag=tuning.lag,
    )


def cache_resident(size: int, threads: int, direction: str) -> bool:
    """Whether the `size` bytes of a pass by so many threads stay in the caches.

    It is measured where the sizes of the caches do not decide it.
    """
    l2, last_level = _caches()
    if size <= threads * l2 or size > last_level:
        return size <= last_level
    return size <= threads * numba_residency.bytes_per_thread(l2, last_level, direction)


def code_variants(dtype: np.dtype, direction: str) -> list[tuple[int, bool, bool, bool]]:
    """All (group, ragged, widened, lag) of `numba_passes` that some number and size of rows take."""
    found = set()
    for rows, power in product((1, 1 << LONGEST), range(LONGEST)):
        plan = choose(rows, 1 << power, dtype, direction)
        group = numba_tuning.ragged_group(plan.group, dtype.itemsize << power, direction, processor.traits())
        found |= {(plan.group, False, plan.widened, plan.lag), (group, True, plan.widened, False)}
    return sorted(found)


def _widened(row_bytes: int, dtype: np.dtype, direction: str, tuning: Tuning, traits: Traits) -> bool:
    """Whether single 16-bit rows are buffered widened: forward where that was measured, with pages."""
    if dtype.itemsize > 2 or traits.few_registers:
        return False
    if direction == "forward":
        return tuning.pages > 1 and row_bytes <= WIDENED_FORWARD
    if traits.prefetch_to_l2:
        return dtype == np.float16 and row_bytes <= WIDENED_ZEN
    return row_bytes <= WIDENED


def _stretch(row_bytes: int, l2: int) -> int:
    """Short rows of x and dy that fill L2, else 0; a line of statistics among theirs costs as much as 15."""
    return max(BLOCK, l2 // (2 * row_bytes)) if VERY_SHORT < row_bytes <= numba_tuning.SHORT else 0


def chunks(rows: int, hidden: int) -> int:
    """A power of two: chunks have at least 64 rows where there are more than 8 of them, else at least 32.

    Wide rows have a chunk for every FEW rows, up to 4 chunks.
    """
    wanted = max(min(rows // 32, 8), rows // 64, min(-(-rows // FEW), 4) if hidden >= WIDE else 0, 1)
    return min(1 << (wanted.bit_length() - 1), MOST_CHUNKS)


def block(rows: int, hidden: int) -> int:
    """Rows whose dgamma and dbeta are added one after the other: a chunk's, in equal parts of up to BLOCK."""
    share = -(-rows // chunks(rows, hidden))
    blocks, step = max(1, -(-share // BLOCK)), max(GROUPS)
    return max(1, -(-share // (blocks * step))) * step


def lags(plan: Plan, columns: int, lanes: int) -> bool:
    """Whether the rows of a group lag by a line: the plan says so, and they are long enough for it."""
    return plan.lag and plan.group > 1 and columns >= 2 * LEAD * lanes


@cache
def _caches() -> tuple[int, int]:
    sizes = machine.cache_bytes()
    return sizes.get("l2") or UNKNOWN_L2, sizes.get("last_level") or UNKNOWN_LAST_LEVEL

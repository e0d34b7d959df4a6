"""How numba_fused works on rows of a given number, size and dtype: what is fixed, what the machine decides.

`chunks` and `block` fix the order in which dgamma and dbeta are added, so they depend on N alone.
`group`, `ahead` and `stream` change no bit; they come from the row's bytes and from the sizes of the caches.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from layernorm_backward import machine

BLOCK, FEW = 64, 16  # rows; longer blocks spare time, and few rows need blocks for all threads
MOST_CHUNKS = 64
GROUPS = (1, 2, 4)  # rows
UNKNOWN_L2, UNKNOWN_LAST_LEVEL = 1 << 20, 32 << 20  # bytes, where the system does not tell


class Plan(NamedTuple):
    """What one call does.

    group: rows worked on at a time, 1, 2 or 4. ahead: cache lines between what is read and what is asked for,
    0 for none. stream: whether the large result goes past the caches. chunks: of rows, each with sums of its
    own. block: rows whose dgamma and dbeta are added one after the other. recentre: whether the mean is
    re-centred; without, for measuring what it costs.
    """

    group: int
    ahead: int
    stream: bool
    chunks: int
    block: int = FEW
    recentre: bool = True


def checked(plan: Plan) -> Plan:
    """The plan; ValueError where the kernel cannot follow it."""
    if plan.group not in GROUPS:
        raise ValueError(f"group is {plan.group}; allowed: {GROUPS}")
    if plan.block < 1 or plan.block % plan.group:
        raise ValueError(f"block is {plan.block}; allowed: multiples of the {plan.group} rows of a group")
    if plan.chunks < 1 or plan.ahead < 0:
        raise ValueError(f"chunks is {plan.chunks}, ahead {plan.ahead}; allowed: from 1, from 0")
    return plan


def choose(rows: int, hidden: int, dtype: np.dtype, arrays: int = 3) -> Plan:
    """The plan for x (rows, hidden) of a dtype; a pass touches so many arrays of x's size."""
    row_bytes = hidden * dtype.itemsize
    l2, last_level = _caches()
    group, ahead = _pace(row_bytes, l2)
    return Plan(group, ahead, arrays * rows * row_bytes > last_level, chunks(rows), block(rows))


def _pace(row_bytes: int, l2: int) -> tuple[int, int]:
    """Rows at a time and lines ahead: a group and the next, of x and dy, fill at most half of L2."""
    if row_bytes <= 512:
        return 2, 16
    if row_bytes <= 4096:
        return 1, 32
    fitting = l2 // 2 // (4 * row_bytes)
    return (4, 8) if fitting >= 4 else (2, 8) if fitting >= 2 else (1, 16)


def chunks(rows: int) -> int:
    """A power of two: a chunk has at least 64 rows where there are more than 8, 32 where there are less."""
    wanted = max(min(rows // 32, 8), rows // 64, 1)
    return min(1 << (wanted.bit_length() - 1), MOST_CHUNKS)


def block(rows: int) -> int:
    """Rows whose dgamma and dbeta are added one after the other."""
    return BLOCK if rows >= BLOCK * MOST_CHUNKS else FEW


@cache
def _caches() -> tuple[int, int]:
    sizes = machine.cache_bytes()
    return sizes.get("l2") or UNKNOWN_L2, sizes.get("last_level") or UNKNOWN_LAST_LEVEL

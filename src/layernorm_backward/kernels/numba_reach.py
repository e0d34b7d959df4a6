"""How many bytes the last-level cache keeps of what a thread works on, by trying it.

A result that is stored as usual is found in the cache by whoever reads it next, while a non-temporal store
spares reading the line that it writes. The first wins as long as results stay. How long that is no size
tells: a virtual machine is told the cache of the whole processor, whatever its few cores keep of it.

Tried is one thread: it reads as many arrays as the pass does, writes one and reads that, with either kind of
store. The fewer are read, the longer results stay.
"""

from collections.abc import Callable
from functools import cache
from time import perf_counter

import numpy as np
from numba import njit
from numpy.typing import NDArray

from layernorm_backward.aligned import aligned_empty
from layernorm_backward.directions import TENSORS
from layernorm_backward.kernels.lane_memory import fence, load, put, store, stream
from layernorm_backward.kernels.lanes import LINE, totals, width, zeros
from layernorm_backward.kernels.sources import checksum

TRIES = 5  # of either kind in turn: the median of their ratios counts
SETTLED, TIMED = 5, 3  # runs of a try: what the other kind left in the caches is gone after the first
GAIN = 0.97  # of the time is what ordinary stores must take to be worth the cache that they fill


@cache
def of_thread(inner: int, last_level: int, direction: str) -> int:
    """Bytes between the caches of one core, `inner`, and all of the last level, tried in steps of two.

    They are those of all large arrays of a pass. Takes some 20 ms to a second, by what is kept.
    """
    kept = inner
    while 2 * kept <= last_level:
        if not _stays(2 * kept, TENSORS[direction]):
            return kept
        kept *= 2
    return last_level


def _stays(size: int, count: int) -> bool:
    """Whether a result stays in the cache, of `count` arrays of `size` bytes together, 2 or 3."""
    lanes = LINE // np.dtype(np.float32).itemsize
    length = size // (count * LINE) * lanes
    *read, written = (aligned_empty(length, np.float32) for _ in range(count))
    for array in (*read, written):
        array.fill(1)
    a, b = read[0], read[1] if count > 2 else None
    ratios = [_seconds(a, b, written, False) / _seconds(a, b, written, True) for _ in range(TRIES)]
    return bool(np.median(ratios) < GAIN)


def _seconds(a: NDArray, b: NDArray | None, c: NDArray, streamed: bool) -> float:
    """Of a pass and a reading of its result, the least of TIMED."""
    total, found = np.empty(1, np.float32), []
    for _ in range(SETTLED + TIMED):
        start = perf_counter()
        passed_and_read()(a, b, c, streamed, total)
        found.append(perf_counter() - start)
    return min(found[SETTLED:])


@njit
def _pass(a, b, c, streamed):
    like = zeros(c, 1)
    for i in range(0, c.size, width(like)):
        lanes = load(a, i, 0, None, like)
        if b is not None:
            lanes = lanes + load(b, i, 0, None, like)
        if streamed:
            stream(lanes, c, i, 0)
        else:
            store(lanes, c, i, 0, None)
    fence()


@njit
def read_lines(c, total):
    """total[0] = the sum of whole lines of flat c: no more than a reading of them."""
    sums = zeros(c, 1)
    for i in range(0, c.size, width(sums)):
        sums = sums + load(c, i, 0, None, sums)
    put(totals(sums), total, 0)


def _passed_and_read(sources):
    def passed_and_read(a, b, c, streamed, total):
        _ = sources
        _pass(a, b, c, streamed)
        read_lines(c, total)

    return passed_and_read


@cache
def passed_and_read() -> Callable[..., None]:
    """passed_and_read(a, b, c, streamed, total): c = a + b, or a where b is None, and total[0] the sum of c.

    Compiled at its first call with arrays of a dtype, with or without b.
    """
    return njit(cache=True)(_passed_and_read(checksum()))

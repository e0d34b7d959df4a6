"""How many bytes the last-level cache keeps of what a thread works on, by trying it.

A result that is stored as usual is found in the cache by whoever reads it next, while a non-temporal store
spares reading the line that it writes. The first wins as long as results stay. How long that is no size
tells: a virtual machine is told the cache of the whole processor, whatever its few cores keep of it.

Tried is one thread: it adds two arrays into a third and reads the sum, with either kind of store.
"""

from collections.abc import Callable
from functools import cache
from time import perf_counter

import numpy as np
from numba import njit
from numpy.typing import NDArray

from layernorm_backward.aligned import aligned_empty
from layernorm_backward.kernels.lane_memory import fence, load, put, store, stream
from layernorm_backward.kernels.lanes import LINE, totals, width, zeros
from layernorm_backward.kernels.sources import checksum

ARRAYS = 3  # a, b and their sum
TRIES = 9  # of either kind in turn: the median of their ratios counts
GAIN = 0.95  # of the time is what ordinary stores must take to be worth the cache that they fill


@cache
def of_thread(inner: int, last_level: int) -> int:
    """Bytes between the caches of one core, `inner`, and all of the last level, tried in steps of two.

    Takes some 20 ms to a second, by what is kept.
    """
    kept = inner
    while 2 * kept <= last_level:
        if not _stays(2 * kept):
            return kept
        kept *= 2
    return last_level


def _stays(size: int) -> bool:
    """Whether a result stays in the cache, of three arrays of `size` bytes together."""
    lanes = LINE // np.dtype(np.float32).itemsize
    length = size // (ARRAYS * LINE) * lanes
    arrays = [aligned_empty(length, np.float32) for _ in range(ARRAYS)]
    for array in arrays:
        array.fill(1)
    ratios = [_seconds(arrays, streamed=False) / _seconds(arrays, streamed=True) for _ in range(TRIES)]
    return bool(np.median(ratios) < GAIN)


def _seconds(arrays: list[NDArray], streamed: bool) -> float:
    """Of a pass and a reading of its result, after one of both that is not timed."""
    total = np.empty(1, np.float32)
    for _ in range(2):
        start = perf_counter()
        passed_and_read()(*arrays, streamed, total)
        end = perf_counter()
    return end - start


@njit
def _add(a, b, c, streamed):
    like = zeros(c, 1)
    for i in range(0, c.size, width(like)):
        lanes = load(a, i, 0, None, like) + load(b, i, 0, None, like)
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
        _add(a, b, c, streamed)
        read_lines(c, total)

    return passed_and_read


@cache
def passed_and_read() -> Callable[..., None]:
    """passed_and_read(a, b, c, streamed, total), compiled at its first call for a dtype."""
    return njit(cache=True)(_passed_and_read(checksum()))

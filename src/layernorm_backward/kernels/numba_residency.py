"""How large a thread's working set may be for its result to stay in the last-level cache, by measurement.

After an ordinary store the next reader finds the result in the cache; a non-temporal store saves reading the
line that it writes (write-allocate). Ordinary stores win as long as results stay in the cache. The reported
size of the cache does not say how long that is: a virtual machine reports the cache of the whole processor,
however little of it its few cores can use.

One thread is timed with either kind of store: it reads as many arrays as the pass does, writes one and reads
that. The fewer it reads, the larger the working set whose result stays.
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

TRIES = 5  # of either kind in turn; the median of the ratios decides
# Warm-up and timed runs of a try: the first warm-up run evicts what the other kind left in the caches.
SETTLED, TIMED = 5, 3
GAIN = 0.97  # ordinary stores must take less than this part of the time to be worth the cache that they fill


@cache
def bytes_per_thread(inner: int, last_level: int, direction: str) -> int:
    """The largest working set, all large arrays of a pass, in bytes, whose result stays in the last level.

    It is at least `inner`, the caches of one core, and at most `last_level`, found by doubling. Takes 20 ms
    to a second, more the larger it is.
    """
    kept = inner
    while 2 * kept <= last_level:
        if not _cache_resident(2 * kept, TENSORS[direction]):
            return kept
        kept *= 2
    return last_level


def _cache_resident(size: int, count: int) -> bool:
    """Whether the result stays in the cache; `count` arrays, 2 or 3, have `size` bytes together."""
    lanes = LINE // np.dtype(np.float32).itemsize
    length = size // (count * LINE) * lanes
    *read, written = (aligned_empty(length, np.float32) for _ in range(count))
    for array in (*read, written):
        array.fill(1)
    a, b = read[0], read[1] if count > 2 else None
    ratios = [_seconds(a, b, written, False) / _seconds(a, b, written, True) for _ in range(TRIES)]
    return bool(np.median(ratios) < GAIN)


def _seconds(a: NDArray, b: NDArray | None, c: NDArray, streamed: bool) -> float:
    """The shortest of TIMED runs of a pass and a reading of its result."""
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
    """total[0] = the sum of flat c, whole lines: the least work that reads all of them."""
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

"""The roofs of this machine: the highest measured bandwidths and peaks, to which kernels are compared.

    copy          a = b            2 useful accesses an element, the mix of the forward pass
    triad         a = b + s*c      3 useful accesses an element, the mix of the backward pass
    multiply_add  v = v*a + b      2 operations, in registers, many independent chains
    update        v = v*a + b      2 accesses an element, in the first-level cache
    handover      v = v*a + b      the same in the second level, on a vector that another thread last updated
    relay         n = n + 1        one number, by all threads in turn
    read          v = v + b        1 access an element: the least use that is made of a result

`_nt` marks non-temporal stores, `_pages` those with prefetches interleaved over several pages. Only useful
bytes count: an ordinary store also reads the line that it writes (write-allocate), which is not counted.
Threads share the work as those of `numba_fused` do.
"""

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from numba import get_num_threads
from numpy.typing import DTypeLike, NDArray

from layernorm_backward.aligned import aligned_empty
from layernorm_backward.dtypes import sum_dtype
from layernorm_backward.kernels.lane_memory import as_stored
from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.kernels.numba_sharing import UNITS, pieces
from layernorm_backward.roofs import in_cache, peak
from layernorm_backward.roofs.flat_reads import reads
from layernorm_backward.roofs.flat_streams import non_temporal_missing, streams
from layernorm_backward.roofs.relay import relay as relay_of_threads

Stream = Literal["copy", "copy_nt", "copy_pages", "triad", "triad_nt", "triad_pages"]
STREAMS: tuple[Stream, ...] = get_args(Stream)
__all__ = [
    "handovers",
    "missing",
    "multiply_adds",
    "non_temporal",
    "operations",
    "read",
    "relay",
    "stream",
    "updates",
]
ACCESSES = {name: 2 if name.startswith("copy") else 3 for name in STREAMS}
SCALE = 0.5


def non_temporal(operation: str) -> bool:
    """Whether a stream writes by non-temporal stores."""
    return operation.endswith(("_nt", "_pages"))


def missing(operation: str) -> str:
    """Empty where the operation can run here, else the reason why it cannot."""
    return non_temporal_missing() if non_temporal(operation) else ""


def stream(operation: Stream, a: NDArray, b: NDArray, c: NDArray | None = None) -> Callable[[], None]:
    """A call that runs one stream over flat views of C-contiguous arrays of one dtype and size.

    float64, float32; float16 and bfloat16 with the triad in float32, rounded to nearest even.

    The thread count is the one set at the time of the call. ValueError for an unknown operation, for one that
    is missing here, for other arrays, and where non-temporal stores meet an `a` that is not at a multiple of
    64 bytes.
    """
    if operation not in STREAMS:
        raise ValueError(f"unknown operation {operation!r}; allowed: {', '.join(STREAMS)}")
    if missing(operation):
        raise ValueError(f"{operation}: {missing(operation)}")
    if c is None and ACCESSES[operation] == 3:
        raise ValueError(f"{operation} reads two arrays, c is None; allowed: an array")
    if non_temporal(operation) and a.ctypes.data % LINE:
        at = a.ctypes.data % LINE
        raise ValueError(f"a has address {at} modulo {LINE}; allowed: 0, as from aligned_empty")
    arrays = a, b, b if c is None else c
    if not all((one.size, one.dtype) == (a.size, a.dtype) and one.flags.c_contiguous for one in arrays):
        found = ", ".join(f"{one.size} of {one.dtype}" for one in arrays)
        raise ValueError(f"the arrays hold {found}; allowed: C-contiguous ones of one size and dtype")
    kind, scale = STREAMS.index(operation), sum_dtype(a.dtype).type(SCALE)
    flat = [as_stored(array.reshape(-1)) for array in arrays]

    def run() -> None:
        streams()(
            kind,
            *flat,
            scale,
            pieces(UNITS, get_num_threads(), not non_temporal(operation)),
        )

    return run


def read(array: NDArray) -> Callable[[], None]:
    """A call that reads all whole lines of a C-contiguous array of any dtype that `stream` takes."""
    flat, wide = as_stored(array.reshape(-1)), sum_dtype(array.dtype)

    def run() -> None:
        reads()(flat, np.empty(UNITS, wide), pieces(UNITS, get_num_threads(), True))

    return run


def multiply_adds(dtype: DTypeLike, rounds: int) -> Callable[[], float]:
    """A call that runs `rounds` of `peak.CHAINS` vector multiply-adds in each thread."""
    half = np.dtype(dtype).type(0.5)
    return lambda: peak.multiply_adds(half, half, rounds, get_num_threads())


def updates(dtype: DTypeLike, rounds: int) -> Callable[[], None]:
    """A call that runs `rounds` of `in_cache.updates` in each thread, on a vector of its own."""
    half = np.dtype(dtype).type(0.5)
    vectors = _of_ones(half, in_cache.BYTES)
    return lambda: in_cache.updates(vectors, half, half, rounds)


def handovers(dtype: DTypeLike, rounds: int, step: int) -> Callable[[], None]:
    """A call that runs `rounds` of `in_cache.handovers`; with `step` 0 each thread keeps its vector."""
    half = np.dtype(dtype).type(0.5)
    vectors = _of_ones(half, in_cache.HANDOVER_BYTES)
    return lambda: in_cache.handovers(vectors, half, half, rounds, step)


def relay(turns: int) -> Callable[[], int]:
    """A call in which the threads that are set count to `turns` in turn; returns the number they reached."""
    counter, threads = aligned_empty(LINE // np.dtype(np.intp).itemsize, np.intp), get_num_threads()

    def run() -> int:
        counter.fill(0)
        relay_of_threads()(counter, turns, threads)
        return int(counter[0])

    return run


def _of_ones(number: np.floating, size: int) -> NDArray:
    """A vector of ones, of so many bytes, for each thread that is set; v*1/2 + 1/2 does not change it."""
    vectors = aligned_empty((get_num_threads(), size // number.itemsize), number.dtype)
    vectors.fill(1)
    return vectors


def operations(dtype: DTypeLike, rounds: int, threads: int) -> int:
    """Floating-point operations of one call of `multiply_adds`: two a lane, chain, round and thread."""
    return 2 * (peak.vector_bytes() // np.dtype(dtype).itemsize) * peak.CHAINS * rounds * threads

"""What this machine can do at most: copy, triad and multiply-add, the roofs that kernels are held against.

    copy          a = b            2 useful accesses an element, the mix of the forward pass
    triad         a = b + s*c      3 useful accesses an element, the mix of the backward pass
    multiply_add  v = v*a + b      2 operations, in registers, many independent chains

`_nt` marks non-temporal stores. Useful bytes only: an ordinary store also reads the line that it writes
(write-allocate), which is not counted. Work is cut into equal parts, one a thread.
"""

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from numba import get_num_threads, njit, prange
from numpy.typing import DTypeLike, NDArray

from layernorm_backward.streams import (
    CHAINS,
    LINE,
    fence,
    multiply_add,
    non_temporal_missing,
    stream_copy,
    stream_triad,
    vector_bytes,
)

Stream = Literal["copy", "copy_nt", "triad", "triad_nt"]
STREAMS: tuple[Stream, ...] = get_args(Stream)
ACCESSES = {"copy": 2, "copy_nt": 2, "triad": 3, "triad_nt": 3}
SCALE = 0.5


def missing(operation: str) -> str:
    """Empty where the operation can run here, else the reason why it cannot."""
    return non_temporal_missing() if operation.endswith("_nt") else ""


def aligned_empty(shape: int | tuple[int, ...], dtype: DTypeLike, align: int = 4096) -> NDArray:
    """An array like np.empty whose first element lies at a multiple of `align` bytes."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.empty(size + align, np.uint8)
    start = -raw.ctypes.data % align
    return raw[start : start + size].view(dtype).reshape(shape)


def stream(operation: Stream, a: NDArray, b: NDArray, c: NDArray | None = None) -> Callable[[], None]:
    """A call that runs one stream over flat views of C-contiguous arrays of one dtype and size.

    ValueError for an unknown operation, for one that is missing here, and where non-temporal stores would
    meet an `a` that is not at a multiple of 64 bytes. The thread count is the one set when it is called.
    """
    if operation not in STREAMS:
        raise ValueError(f"unknown operation {operation!r}; allowed: {', '.join(STREAMS)}")
    if missing(operation):
        raise ValueError(f"{operation}: {missing(operation)}")
    if c is None and ACCESSES[operation] == 3:
        raise ValueError(f"{operation} reads two arrays, c is None; allowed: an array")
    if operation.endswith("_nt") and a.ctypes.data % LINE:
        raise ValueError(f"a lies at {a.ctypes.data % LINE} modulo {LINE}; allowed: 0, as from aligned_empty")
    kind, scale = STREAMS.index(operation), a.dtype.type(SCALE)
    flat = [array.reshape(-1) for array in (a, b, b if c is None else c)]
    return lambda: _streams(kind, *flat, scale, get_num_threads())


def multiply_adds(dtype: DTypeLike, rounds: int) -> Callable[[], float]:
    """A call that runs `rounds` of CHAINS vector multiply-adds in each thread."""
    half = np.dtype(dtype).type(0.5)
    return lambda: _multiply_adds(half, half, rounds, get_num_threads())


def operations(dtype: DTypeLike, rounds: int, threads: int) -> int:
    """Floating-point operations of one call of `multiply_adds`: two a lane, chain, round and thread."""
    return 2 * (vector_bytes() // np.dtype(dtype).itemsize) * CHAINS * rounds * threads


@njit(cache=True)
def _copy(a, b):
    for i in range(a.size):
        a[i] = b[i]


@njit(cache=True)
def _triad(a, b, c, s):
    for i in range(a.size):
        a[i] = b[i] + s * c[i]


@njit(cache=True)
def _copy_nt(a, b):
    lanes = LINE // a.itemsize
    whole = a.size - a.size % lanes
    for i in range(0, whole, lanes):
        stream_copy(a, b, i)
    _copy(a[whole:], b[whole:])
    fence()


@njit(cache=True)
def _triad_nt(a, b, c, s):
    lanes = LINE // a.itemsize
    whole = a.size - a.size % lanes
    for i in range(0, whole, lanes):
        stream_triad(a, b, c, s, i)
    _triad(a[whole:], b[whole:], c[whole:], s)
    fence()


@njit(parallel=True, cache=True)
def _streams(operation, a, b, c, s, parts):
    """Every part but the last holds whole cache lines."""
    lanes = LINE // a.itemsize
    lines = a.size // lanes
    for part in prange(parts):
        start = part * lines // parts * lanes
        end = a.size if part + 1 == parts else (part + 1) * lines // parts * lanes
        if operation == 0:
            _copy(a[start:end], b[start:end])
        elif operation == 1:
            _copy_nt(a[start:end], b[start:end])
        elif operation == 2:
            _triad(a[start:end], b[start:end], c[start:end], s)
        else:
            _triad_nt(a[start:end], b[start:end], c[start:end], s)


@njit(cache=True)
def _chains(a, b, rounds):
    return multiply_add(a, b, rounds)


@njit(parallel=True, cache=True)
def _multiply_adds(a, b, rounds, parts):
    total = a * 0
    for _ in prange(parts):
        total += _chains(a, b, rounds)
    return total

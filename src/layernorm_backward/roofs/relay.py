"""Core-to-core latency, the time of a cache line from core to core: threads increment a number in turn."""

from collections.abc import Callable
from functools import cache

from llvmlite import ir
from numba import njit, prange
from numba.extending import intrinsic

from layernorm_backward.kernels.lane_memory import elements, fetch_add
from layernorm_backward.kernels.sources import checksum

PATIENCE = 1 << 26  # polls, 0.2 s or more: a thread that waits longer for its turn gives up


@intrinsic
def _seen(typingctx, counter):
    """An atomic load of counter[0], for a pointer of `elements`: read from memory each time."""

    def emit(context, builder, signature, arguments):
        size = ir.IntType(signature.return_type.bitwidth)
        assert arguments[0].type.pointee == size
        return builder.load_atomic(arguments[0], "monotonic", size.width // 8)

    return counter.dtype(counter), emit


def _relay(sources):
    def relay(counter, turns, threads):
        _ = sources
        for thread in prange(threads):
            place, patience = elements(counter), PATIENCE
            turn = _seen(place)
            while turn < turns and patience > 0:
                patience -= 1
                if turn % threads == thread:
                    fetch_add(counter)
                    patience = PATIENCE
                turn = _seen(place)

    return relay


@cache
def relay() -> Callable[..., None]:
    """relay(counter, turns, threads), compiled at its first call: counts counter[0] from 0 to `turns`.

    It stays below where the threads did not run at the same time. counter: (n,) of intp, a line or more.
    """
    return njit(parallel=True, cache=True)(_relay(checksum()))

"""Core-to-core latency, how long a line takes from one core to another: threads count a number up in turn."""

from collections.abc import Callable
from functools import cache

from llvmlite import ir
from numba import njit, prange
from numba.extending import intrinsic

from layernorm_backward.kernels.lane_memory import elements, take
from layernorm_backward.kernels.sources import checksum

PATIENCE = 1 << 26  # looks, a fifth of a second or more: a thread that waits longer for its turn gives up


@intrinsic
def _seen(typingctx, counter):
    """counter[0] as it is now, of a pointer of `elements`: looked up in memory each time."""

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
                    take(counter)
                    patience = PATIENCE
                turn = _seen(place)

    return relay


@cache
def relay() -> Callable[..., None]:
    """relay(counter, turns, threads), compiled at its first call: counter[0] is `turns` afterwards.

    It is less where the threads did not run at the same time. counter (n,) of intp fills a line or more.
    """
    return njit(parallel=True, cache=True)(_relay(checksum()))

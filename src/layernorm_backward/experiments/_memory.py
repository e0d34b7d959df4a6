"""Peak memory of one call of a kernel, and the part of it that is scratch.

Allocations are traced by tracemalloc, to which NumPy reports; it includes some kilobytes of Python's own.
Allocations by compiled code would not be seen; numba_fused lets NumPy allocate all that it needs. What the
first call loads or caches for later ones is no scratch, so the least of several calls is taken.
"""

import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

from layernorm_backward.directions import Direction
from layernorm_backward.kernels import Kernel
from layernorm_backward.kernels.saved import saved_bytes
from layernorm_backward.timing.pool import Buffers

CALLS = 3  # results of two calls may begin at different offsets within a line, and need different code


class Memory(NamedTuple):
    """peak_bytes: inputs, results and scratch; extra_bytes: the scratch; extra_share: of inputs and results.

    What is saved is a result of the forward pass and an input of the backward pass.
    """

    peak_bytes: float
    extra_bytes: float
    extra_share: float


def memory(kernel: Kernel, direction: Direction, arrays: Buffers) -> Memory:
    """Memory of one forward or backward call that allocates its own results."""
    x, dy, _, gamma, beta, *_ = arrays
    eps = kernel.default_eps
    if direction == "forward":
        allocated, (y, saved) = _allocated(lambda: kernel.forward(x, gamma, beta, eps))
        given = saved_bytes((x, gamma, beta))
        made = y.nbytes + saved_bytes((x, gamma, beta, saved)) - given
    else:
        _, saved = kernel.forward(x, gamma, beta, eps)
        given = dy.nbytes + saved_bytes(saved)
        allocated, results = _allocated(lambda: kernel.backward(dy, saved))
        made = sum(array.nbytes for array in results)
    return Memory(given + allocated, allocated - made, (allocated - made) / (given + made))


def _allocated(call: Callable[[], Any]) -> tuple[int, Any]:
    """Peak of the bytes allocated during a call, the least of `CALLS` calls, and the result of the last."""
    peaks = []
    for _ in range(CALLS):
        found = None  # frees the result of the call before
        tracemalloc.start()
        try:
            found = call()
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return min(peaks), found

"""Kernels made ready to be timed: arrays that were written before, results that were checked on them.

Correct before timed: each kernel runs once on the arrays of its cell, and the largest error of dx (or y)
over some of their rows, against the oracle, is kept beside its time. A kernel whose error is over the limit
is not timed. eps is the kernel's own.
"""

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward import inputs, oracle, roofs
from layernorm_backward.errors import error_u
from layernorm_backward.kernels import Kernel, available
from layernorm_backward.kernels.saved import saved_bytes, saved_extra_bytes, saved_items

Direction = Literal["forward", "backward"]
ACCESSES: dict[Direction, int] = {"forward": 2, "backward": 3}  # useful ones, an element of x


class Buffers(NamedTuple):
    """x, dy, out (..., D) at 64-byte boundaries; gamma, beta, dgamma, dbeta (D,). `out` takes y or dx."""

    x: NDArray
    dy: NDArray
    out: NDArray
    gamma: NDArray
    beta: NDArray
    dgamma: NDArray
    dbeta: NDArray


class Prepared(NamedTuple):
    """A kernel's call and how long its first run took, what its forward pass saves, and its error on the
    arrays to be timed."""

    call: Callable[[], object]
    first_s: float
    saved_bytes: int
    saved_extra_bytes: int
    saved_arrays: int
    saved_scalars: int
    error_u_max: float


def buffers(shape: tuple[int, ...], dtype: str, seed: int) -> Buffers:
    """x and dy from N(0,1), gamma from N(1,1/4), beta from N(0,1); every page has been written."""
    rng = inputs.generator(seed, *shape)
    x, dy, out = (roofs.aligned_empty(shape, dtype) for _ in range(3))
    for array in (x, dy, out):
        rng.standard_normal(out=array, dtype=array.dtype)
    gamma = inputs.gamma(rng, "random", shape[-1], dtype)
    beta = inputs.beta(rng, shape[-1], dtype)
    return Buffers(x, dy, out, gamma, beta, np.zeros_like(gamma), np.zeros_like(gamma))


def prepare(
    kernels: Mapping[str, Kernel],
    direction: Direction,
    arrays: Buffers,
    error_rows: int,
    error_limit_u: float,
) -> tuple[dict[str, Prepared], dict[str, str]]:
    """The kernels that can be timed, and for each other one the reason why not."""
    ready, refused = {}, {}
    for name, kernel in kernels.items():
        reason = available(kernel) or kernel.unsupported.get(arrays.x.dtype.name, "")
        if not reason:
            found = _prepared(kernel, direction, arrays, error_rows)
            if found.error_u_max <= error_limit_u:
                ready[name] = found
                continue
            reason = f"wrong: an error of {found.error_u_max:.3g} u, over {error_limit_u:g} u"
        refused[name] = reason
    return ready, refused


def _prepared(kernel: Kernel, direction: Direction, arrays: Buffers, error_rows: int) -> Prepared:
    x, dy, out, gamma, beta, dgamma, dbeta = arrays
    eps = kernel.default_eps
    _compile(kernel, x.dtype)
    started = perf_counter()
    _, saved = kernel.forward(x, gamma, beta, eps, out=out)
    kept = saved_bytes(saved), saved_extra_bytes(saved), *saved_items(saved)

    def forward() -> None:
        kernel.forward(x, gamma, beta, eps, out=out)

    def backward() -> None:
        kernel.backward(dy, saved, out=(out, dgamma, dbeta))

    if direction == "backward":
        started = perf_counter()
        backward()
    else:
        del saved
    first_s = perf_counter() - started
    error = _error_u_max(direction, arrays, error_rows, eps)
    return Prepared(backward if direction == "backward" else forward, first_s, *kept, error)


def _compile(kernel: Kernel, dtype: np.dtype) -> None:
    """Run a kernel on one small row: what a first call compiles or loads is no part of a first run's time."""
    row, vector = np.ones((1, 4), dtype), np.ones(4, dtype)
    _, saved = kernel.forward(row, vector, vector, kernel.default_eps)
    kernel.backward(row, saved)


def _error_u_max(direction: Direction, arrays: Buffers, error_rows: int, eps: float) -> float:
    """Largest error, in units of u, of evenly spread rows of `out`, the first and the last among them."""
    flat = [array.reshape(-1, array.shape[-1]) for array in arrays[:3]]
    count = len(flat[0])
    sample = np.unique(np.linspace(0, count - 1, min(error_rows, count)).astype(np.intp))
    x, dy, computed = (array[sample] for array in flat)
    x, dy, gamma, beta = map(inputs.values, (x, dy, arrays.gamma, arrays.beta))
    if direction == "forward":
        return float(error_u(computed, oracle.forward(x, gamma, beta, eps)).max())
    return float(error_u(computed, oracle.backward(x, gamma, dy, eps).dx).max())

"""A kernel made ready to be timed: tried on few rows, then on ever more, then checked on all.

The few rows compile what is compiled, and tell how much memory a row takes. A kernel that would take too long
is not started on all rows.
"""

import tracemalloc
from collections.abc import Callable
from inspect import signature
from math import inf
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.audit.fitting import parts, require_like
from layernorm_backward.audit.setting import FAILURES
from layernorm_backward.bench.broken import broken
from layernorm_backward.bench.data import Data, errors_u
from layernorm_backward.bench.limits import rounds
from layernorm_backward.bench.quick import TooSlowError, require_quick
from layernorm_backward.bench.setting import EPS
from layernorm_backward.derivations.gradients import Gradients
from layernorm_backward.directions import AnyDirection
from layernorm_backward.held import arrays as held
from layernorm_backward.kernels import Kernel
from layernorm_backward.timing.prepared import Buffers

FEW = 1 << 16  # elements of the first run
TRACED = 4.0  # times as long as else, a run whose memory is traced


class Ready(NamedTuple):
    """The call and the seconds of one run of each direction, and the error in u of each result.

    `rounded` says whether x is saved in 16 bits, but not as it was.
    """

    calls: dict[AnyDirection, Callable[[], object]]
    seconds: dict[AnyDirection, float]
    errors_u: dict[str, float]
    rounded: bool


def takes_out(function: Callable[..., Any]) -> bool:
    """Whether a function has a parameter `out` for its results."""
    try:
        return "out" in signature(function).parameters
    except ValueError:  # what is not written in Python need not tell its parameters
        return False


def needs(kernel: Kernel, arrays: Buffers, limit_s: float = inf) -> float:
    """The most bytes beyond the arrays at any time, for all rows in proportion to a run over few rows.

    TooSlowError where that takes longer than `limit_s`, which is for a run over all rows.
    """
    few = _few(arrays)
    forward, backward = _passes(kernel, first_rows(arrays, few))
    y, saved = forward()
    _require_like(kernel.name, {"y": y}, {"y": arrays.y[:few]})
    _require_like(
        kernel.name, _named(backward(saved)), _named((arrays.out[:few], arrays.dgamma, arrays.dbeta))
    )
    del y, saved
    started = perf_counter()
    tracemalloc.start()
    try:
        backward(forward()[1])
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    scale, its_s = len(arrays.x) / few, (perf_counter() - started) / TRACED
    if its_s > limit_s > 0:
        raise TooSlowError(its_s * scale, limit_s, 0)
    return most * scale


def ready(kernel: Kernel, data: Data, limit_s: float) -> Ready:
    """Calls over all rows, each run once; TooSlowError where a run would take longer than `limit_s`."""
    arrays = data.arrays
    require_quick(lambda rows: _both(kernel, first_rows(arrays, rows)), _few(arrays), len(arrays.x), limit_s)
    forward, backward = _passes(kernel, arrays)
    started = perf_counter()
    y, saved = forward()
    forward_s = perf_counter() - started
    _require_like(kernel.name, {"y": y}, {"y": arrays.y})
    _require_y_is_free(kernel, saved, arrays)
    found = errors_u(data, y=y)
    del y
    started = perf_counter()
    gradients = backward(saved)
    backward_s = perf_counter() - started
    found |= gradients_u(kernel.name, gradients, data)
    calls = {
        "forward": forward,
        "backward": lambda: backward(saved),
        "both": lambda: backward(forward()[1]),
    }
    seconds = {"forward": forward_s, "backward": backward_s, "both": forward_s + backward_s}
    return Ready(calls, seconds, found, rounds(saved, arrays.x))


def gradients_u(name: str, gradients: tuple[NDArray, NDArray, NDArray], data: Data) -> dict[str, float]:
    """The error in u of each gradient; MisfitError, with the name of the kernel, where one does not fit."""
    arrays, found = data.arrays, _named(gradients)
    _require_like(name, found, _named((arrays.out, arrays.dgamma, arrays.dbeta)))
    return errors_u(data, **found)


def _named(gradients: tuple[NDArray, NDArray, NDArray]) -> dict[str, NDArray]:
    return dict(zip(Gradients._fields, gradients, strict=True))


def _passes(kernel: Kernel, arrays: Buffers) -> tuple[Callable[[], tuple], Callable[[Any], tuple]]:
    """forward() -> y, saved and backward(saved) -> dx, dgamma, dbeta; into `arrays` where they take `out`."""
    x, dy, dx, gamma, beta, dgamma, dbeta, y, *_ = arrays
    to_y = {"out": y} if takes_out(kernel.forward) else {}
    to_gradients = {"out": (dx, dgamma, dbeta)} if takes_out(kernel.backward) else {}

    def forward() -> tuple[NDArray, Any]:
        try:
            return parts("forward", kernel.forward(x, gamma, beta, EPS, **to_y), 2, "y, saved")
        except FAILURES as error:
            raise broken(kernel, "forward", error) from None

    def backward(saved: Any) -> tuple[NDArray, NDArray, NDArray]:
        try:
            return parts("backward", kernel.backward(dy, saved, **to_gradients), 3, "dx, dgamma, dbeta")
        except FAILURES as error:
            raise broken(kernel, "backward", error) from None

    return forward, backward


def _both(kernel: Kernel, arrays: Buffers) -> None:
    forward, backward = _passes(kernel, arrays)
    backward(forward()[1])


def _few(arrays: Buffers) -> int:
    rows, hidden = arrays.x.shape
    return min(rows, max(1, FEW // hidden))


def first_rows(arrays: Buffers, rows: int) -> Buffers:
    """The same arrays, of their first rows only."""
    return Buffers(*(array[:rows] if array.ndim > 1 else array for array in arrays[:-1]))


def _require_y_is_free(kernel: Kernel, saved: Any, arrays: Buffers) -> None:
    """ValueError where dx would be written over a y that the backward pass reads."""
    overwritten = arrays.y is arrays.out and takes_out(kernel.backward)
    if overwritten and any(np.may_share_memory(part, arrays.y) for part in held(saved)):
        raise ValueError(f"{kernel.name} saves y, where dx is written; allowed: --direction both or all")


def _require_like(name: str, found: dict[str, Any], wanted: dict[str, NDArray]) -> None:
    """MisfitError where a result is no array of the shape and dtype wanted."""
    for result, like in wanted.items():
        require_like(f"{name}: {result}", found[result], like.shape, like.dtype)

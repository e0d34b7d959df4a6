"""A kernel is prepared for timing: run on few rows, then on more and more, then checked on all.

The run on few rows compiles the kernel and measures the memory that a row takes. A kernel that would take too
long is not started on all rows.
"""

import tracemalloc
from collections.abc import Callable
from math import inf
from time import perf_counter
from typing import NamedTuple

from layernorm_backward.bench.checked import checked_backward, checked_forward, require_y_kept
from layernorm_backward.bench.data import Data
from layernorm_backward.bench.limits import rounds
from layernorm_backward.bench.passes import named, passes, require_y
from layernorm_backward.bench.time_limit import TooSlowError, require_within_limit
from layernorm_backward.directions import AnyDirection
from layernorm_backward.kernels import Kernel
from layernorm_backward.timing.pool import Buffers

FEW = 1 << 16  # elements of the first run
TRACED = 4.0  # times as long as else, a run whose memory is traced


class Ready(NamedTuple):
    """The call and the seconds of one run of each direction, and the error in u of each result.

    `rounded` says whether x is saved in 16 bits, but not as it was. `gradients_u` and `errors_again_u` give
    the errors of one more run of what is timed: of the backward pass, and of both. That takes `check_s`.
    """

    calls: dict[AnyDirection, Callable[[], object]]
    seconds: dict[AnyDirection, float]
    errors_u: dict[str, float]
    rounded: bool
    gradients_u: Callable[[], dict[str, float]]
    errors_again_u: Callable[[], dict[str, float]]
    check_s: float


def needs(kernel: Kernel, arrays: Buffers, limit_s: float = inf) -> float:
    """The most bytes beyond the arrays at any time, for all rows in proportion to a run over few rows.

    TooSlowError where that takes longer than `limit_s`, which is for a run over all rows.
    """
    few = _few(arrays)
    first = arrays.first_rows(few)
    forward, backward, *_ = passes(kernel, first)
    y, saved = forward()
    require_y(kernel.name, y, first)
    named(kernel.name, backward(saved), first)
    del y, saved
    started = perf_counter()
    tracemalloc.start()
    try:
        kept = forward()
        backward(kept[1])
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    scale, its_s = len(arrays.x) / few, (perf_counter() - started) / TRACED
    if its_s > limit_s > 0:
        raise TooSlowError(its_s * scale, limit_s, 0)
    return most * scale


def ready(kernel: Kernel, data: Data, limit_s: float) -> Ready:
    """Calls over all rows, each run once; TooSlowError where a run would take longer than `limit_s`.

    WrongError where y is not kept.
    """
    arrays, name = data.arrays, kernel.name
    require_within_limit(
        lambda rows: _both(kernel, arrays.first_rows(rows)), _few(arrays), len(arrays.x), limit_s
    )
    started = perf_counter()
    run = passes(kernel, arrays)
    first = checked_forward(name, run, data)
    saved = first.saved
    last = checked_backward(name, run, saved, data)
    require_y_kept(name, run, first, data)
    check_s = perf_counter() - started
    calls = {
        "forward": run.forward,
        "backward": lambda: run.backward(saved),
        "both": lambda: run.backward(run.forward()[1]),
    }
    seconds = {"forward": first.seconds, "backward": last.seconds, "both": first.seconds + last.seconds}

    def gradients_u() -> dict[str, float]:
        return checked_backward(name, run, saved, data).errors_u

    def errors_again_u() -> dict[str, float]:
        return checked_forward(name, run, data).errors_u | gradients_u()

    errors_u, rounded = first.errors_u | last.errors_u, rounds(saved, arrays.x)
    return Ready(calls, seconds, errors_u, rounded, gradients_u, errors_again_u, check_s)


def _both(kernel: Kernel, arrays: Buffers) -> None:
    forward, backward, *_ = passes(kernel, arrays)
    backward(forward()[1])


def _few(arrays: Buffers) -> int:
    rows, hidden = arrays.x.shape
    return min(rows, max(1, FEW // hidden))

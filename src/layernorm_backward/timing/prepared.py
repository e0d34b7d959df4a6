"""Kernels made ready to be timed: arrays that were written before, results that were checked on them.

Correct before timed: each kernel runs on the arrays of its cell, in which no result is left from before,
and the largest error of dx (or y) over some of their rows, against the oracle, is kept beside its time. A
kernel whose error is over the limit is not timed, nor is one whose dgamma or dbeta are wrong, or that writes
to its inputs, raises, or returns what does not fit. One that takes no `out` returns arrays of its own. eps is
the kernel's own.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import sqrt
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward import inputs, oracle
from layernorm_backward.directions import DIRECTIONS, TENSORS, AnyDirection
from layernorm_backward.dtypes import sum_dtype, unit_roundoff
from layernorm_backward.errors import error_u
from layernorm_backward.kernels import Kernel, missing
from layernorm_backward.kernels.saved import saved_bytes, saved_items
from layernorm_backward.timing import clock
from layernorm_backward.timing.exact_sums import sums_error_u
from layernorm_backward.timing.pace import LONG_S
from layernorm_backward.timing.pool import Buffers
from layernorm_backward.untrusted.checked_kernel import BrokenError, blame, checked
from layernorm_backward.untrusted.fitting import takes_out
from layernorm_backward.untrusted.raised import FAILURES

ACCESSES: dict[AnyDirection, int] = TENSORS | {"both": sum(TENSORS.values())}  # useful ones, an element of x
LEAST_ROWS = 4  # in which errors are looked at
STORED_U = 2  # u of the storage dtype: what is stored is rounded once, or twice where x_hat is stored, too


class Prepared(NamedTuple):
    """A kernel's call and how long one run takes, what its forward pass saves, and its errors on the
    arrays to be timed: that of the sums is norm-wise, and NaN where they were not looked at."""

    call: Callable[[], object]
    run_s: float
    saved_bytes: int
    saved_extra_bytes: int
    saved_arrays: int
    saved_scalars: int
    error_u_max: float
    sums_error_u: float


def prepare(
    kernels: Mapping[str, Kernel],
    direction: AnyDirection,
    arrays: Buffers,
    error_rows: int,
    error_limit_u: float,
) -> tuple[dict[str, Prepared], dict[str, str]]:
    """The kernels that can be timed, and for each other one the reason why not."""
    ready, refused = {}, {}
    for name, kernel in kernels.items():
        reason = missing(kernel) or kernel.unsupported.get(arrays.x.dtype.name, "")
        if not reason:
            try:
                found = _prepared(kernel, direction, arrays, error_rows)
                reason = found if isinstance(found, str) else _wrong(found, arrays, error_limit_u)
            except BrokenError as error:
                arrays.restored()
                reason = str(error)
            if not reason:
                ready[name] = found
                continue
        refused[name] = reason
    return ready, refused


def renewed(kernel: Kernel, direction: AnyDirection, arrays: Buffers) -> Callable[[], object]:
    """The call of a kernel that was found right on these arrays before, with nothing looked at again.

    BrokenError where its forward pass, which a call of the backward pass needs, now raises.
    """
    saved = None
    if direction == "backward":
        forward = _with_out(checked(kernel)).forward
        _, saved = forward(arrays.x, arrays.gamma, arrays.beta, kernel.default_eps, out=arrays.y)
    return _call(kernel, direction, arrays, saved)


def _wrong(found: Prepared, arrays: Buffers, limit_u: float) -> str:
    """Why results are too far off, or "". The limit is in u of the dtype of the sums; storing adds its own.

    Rounding takes a running sum of N terms some sqrt(N) u away, and a row that is left out sqrt(1/N). What is
    stored may be x_hat, so 16-bit x allows for its roundings in dgamma, however wide gamma is.
    """
    u, sums, rows = unit_roundoff(arrays.x.dtype), sum_dtype(arrays.x.dtype), arrays.x[..., 0].size
    of_sums, stored = unit_roundoff(sums), STORED_U * u if arrays.x.dtype != sums else 0
    limit = (limit_u * of_sums + stored) / u
    sums_limit = ((limit_u + sqrt(rows)) * of_sums + stored) / unit_roundoff(arrays.gamma.dtype)
    if not found.error_u_max <= limit:
        return f"wrong: an error of {found.error_u_max:.3g} u, over {limit:.3g} u"
    if found.sums_error_u > sums_limit:
        return f"wrong: dgamma or dbeta are {found.sums_error_u:.3g} u off, over {sums_limit:.3g} u"
    return ""


def _prepared(kernel: Kernel, direction: AnyDirection, arrays: Buffers, error_rows: int) -> Prepared | str:
    """A kernel that has run once, or why its results tell nothing; BrokenError where it raises or misfits."""
    run_s, saved = _ran(checked(kernel), direction, arrays)
    if lost := arrays.restored():
        return f"wrong: writes to {', '.join(lost)}, of which it may only read"
    kept = saved_bytes(saved), saved_bytes(saved, arrays.x, arrays.gamma), *saved_items(saved)
    if direction != "backward":
        saved = None
    error, sums_error = error_u_max(direction, arrays, error_rows, kernel.default_eps), float("nan")
    if direction != "forward" and arrays.sums:
        sums_error = sums_error_u((arrays.dgamma, arrays.dbeta), arrays.sums(kernel.default_eps))
    call = _call(kernel, direction, arrays, saved)
    if run_s > LONG_S:
        run_s = clock.elapsed(call, 1)
    return Prepared(call, run_s, *kept, error, sums_error)


def _ran(kernel: Kernel, direction: AnyDirection, arrays: Buffers) -> tuple[float, object]:
    """Seconds of a run, whose results are in the arrays, in which none is left from before; what it saved."""
    _compile(kernel, arrays.x, arrays.gamma)
    x, dy, out, gamma, beta, dgamma, dbeta, y, *_ = arrays
    for result in (out, y, dgamma, dbeta):
        result.fill(np.nan)
    run, gradients = _with_out(kernel), ()
    started = perf_counter()
    own_y, saved = run.forward(x, gamma, beta, kernel.default_eps, out=y)
    if direction == "backward":
        started = perf_counter()
    if direction != "forward":
        gradients = run.backward(dy, saved, out=(out, dgamma, dbeta))
    run_s = perf_counter() - started
    if direction != "backward" and not takes_out(kernel.forward):
        y[...] = own_y
    if gradients and not takes_out(kernel.backward):
        out[...], dgamma[...], dbeta[...] = gradients
    return run_s, saved


def _with_out(kernel: Kernel) -> Kernel:
    """The same kernel; its functions that take no `out` are given one, and return arrays of their own."""
    given = {role: getattr(kernel, role) for role in DIRECTIONS}
    without = {role: _leaving_out(one) for role, one in given.items() if not takes_out(one)}
    return replace(kernel, **without)


def _leaving_out(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments, out: function(*arguments)


def _call(kernel: Kernel, direction: AnyDirection, arrays: Buffers, saved: object) -> Callable[[], object]:
    """What is timed, raising as `checked`; backward, it reads what the forward pass has saved."""
    x, dy, out, gamma, beta, dgamma, dbeta, y, *_ = arrays
    eps, run = kernel.default_eps, _with_out(kernel)

    def forward() -> None:
        try:
            run.forward(x, gamma, beta, eps, out=y)
        except FAILURES as error:
            blame(kernel, "forward", error)

    def backward() -> None:
        try:
            run.backward(dy, saved, out=(out, dgamma, dbeta))
        except FAILURES as error:
            blame(kernel, "backward", error)

    def both() -> None:
        role = "forward"
        try:
            just_saved = run.forward(x, gamma, beta, eps, out=y)[1]
            role = "backward"
            run.backward(dy, just_saved, out=(out, dgamma, dbeta))
        except FAILURES as error:
            blame(kernel, role, error)

    return {"forward": forward, "backward": backward, "both": both}[direction]


def _compile(kernel: Kernel, x: NDArray, gamma: NDArray) -> None:
    """Run a kernel on a row of x's size: what it compiles or loads for any size is not in its first time."""
    row, gamma = np.ones((1, x.shape[-1]), x.dtype), gamma.copy()
    _, saved = kernel.forward(row, gamma, gamma, kernel.default_eps)
    kernel.backward(row, saved)


def evenly(count: int, rows: int) -> NDArray[np.intp]:
    """The numbers of `count` evenly spread rows of so many, or of all; the first and last are among them."""
    return np.unique(np.linspace(0, rows - 1, min(count, rows)).astype(np.intp))


def rows_looked_at(elements: int, hidden: int) -> int:
    """In how many rows errors are looked at: of so many elements in all, and in at least LEAST_ROWS."""
    return max(LEAST_ROWS, elements // hidden)


def error_u_max(direction: AnyDirection, arrays: Buffers, error_rows: int, eps: float) -> float:
    """Largest error, in units of u, of evenly spread rows of y, dx or both, the first and last among them."""
    flat = [array.reshape(-1, array.shape[-1]) for array in (arrays.x, arrays.dy, arrays.out, arrays.y)]
    sample = evenly(error_rows, len(flat[0]))
    x, dy, dx, y = (array[sample] for array in flat)
    x, dy, gamma, beta = map(inputs.values, (x, dy, arrays.gamma, arrays.beta))
    errors = []
    if direction != "backward":
        errors.append(error_u(y, oracle.forward(x, gamma, beta, eps)).max())
    if direction != "forward":
        errors.append(error_u(dx, oracle.backward(x, gamma, dy, eps).dx).max())
    return float(max(errors))

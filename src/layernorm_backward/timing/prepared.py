"""Prepares kernels for timing: each runs once on the arrays to be timed, and its results are checked.

Results are filled with NaN before that run. The largest error of dx (or y) over some rows, against the
oracle, is recorded with the time. A kernel is not timed if its error is over the limit, if dgamma or dbeta
are wrong, or if it writes to its inputs, raises, or returns arrays that do not fit. A kernel that takes no
`out` returns arrays of its own. eps is the kernel's own.
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
from layernorm_backward.timing.blocks import fill
from layernorm_backward.timing.exact_sums import sums_error_u
from layernorm_backward.timing.pace import LONG_S
from layernorm_backward.timing.pool import Buffers
from layernorm_backward.untrusted.checked_kernel import BrokenError, blame, checked
from layernorm_backward.untrusted.fitting import takes_out
from layernorm_backward.untrusted.raised import FAILURES

ACCESSES: dict[AnyDirection, int] = TENSORS | {"both": sum(TENSORS.values())}  # useful, per element of x
LEAST_ROWS = 4  # rows whose errors are checked
STORED_U = 2  # u of the storage dtype: what is stored is rounded once, or twice where x_hat is stored, too


class Prepared(NamedTuple):
    """A kernel's call, seconds per run, what its forward pass saves, and its errors on the timed arrays.
    The error of dgamma and dbeta is norm-wise, and NaN where they were not checked."""

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
    """The call of a kernel that was checked on these arrays before; its results are not checked again.

    BrokenError where its forward pass, which a call of the backward pass needs, now raises.
    """
    saved = None
    if direction == "backward":
        forward = _with_out(checked(kernel)).forward
        _, saved = forward(arrays.x, arrays.gamma, arrays.beta, kernel.default_eps, out=arrays.y)
    return _call(kernel, direction, arrays, saved)


def _wrong(found: Prepared, arrays: Buffers, limit_u: float) -> str:
    """Why results are wrong; "" where they are not. The limit is in u of the dtype of the sums, plus storage.

    Rounding changes a running sum of N terms by about sqrt(N) u, and leaving out a row by about sqrt(1/N).
    x_hat may be stored, so 16-bit x allows for its rounding in dgamma, however wide gamma is.
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
    """A kernel that has run once, or why it is wrong; BrokenError if it raises or its results do not fit."""
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
    """Run once; returns seconds and what the forward pass saved. The results to check are filled with NaN."""
    _compile(kernel, arrays.x, arrays.gamma)
    x, dy, out, gamma, beta, dgamma, dbeta, y, *_ = arrays
    given, gradients = (out, dgamma, dbeta), ()
    for result in {"forward": (y,), "backward": given, "both": (y, *given)}[direction]:
        fill(result, np.nan)
    run = _with_out(kernel)
    started = perf_counter()
    own_y, saved = run.forward(x, gamma, beta, kernel.default_eps, out=y)
    if direction == "backward":
        started = perf_counter()
    if direction != "forward":
        gradients = run.backward(dy, saved, out=given)
    run_s = perf_counter() - started
    if direction != "backward" and not takes_out(kernel.forward):
        y[...] = own_y
    if gradients and not takes_out(kernel.backward):
        out[...], dgamma[...], dbeta[...] = gradients
    return run_s, saved


def _with_out(kernel: Kernel) -> Kernel:
    """The kernel with functions that accept `out`; those that took none ignore it and return own arrays."""
    given = {role: getattr(kernel, role) for role in DIRECTIONS}
    without = {role: _leaving_out(one) for role, one in given.items() if not takes_out(one)}
    return replace(kernel, **without)


def _leaving_out(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments, out: function(*arguments)


def _call(kernel: Kernel, direction: AnyDirection, arrays: Buffers, saved: object) -> Callable[[], object]:
    """The call to be timed; it raises as `checked`, and a backward pass reads `saved`."""
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
    """Run a kernel on one row, so that compiling and loading is not part of the first timed run."""
    row, gamma = np.ones((1, x.shape[-1]), x.dtype), gamma.copy()
    _, saved = kernel.forward(row, gamma, gamma, kernel.default_eps)
    kernel.backward(row, saved)


def evenly(count: int, rows: int) -> NDArray[np.intp]:
    """The indices of `count` evenly spaced rows (at most all), including the first and the last."""
    return np.unique(np.linspace(0, rows - 1, min(count, rows)).astype(np.intp))


def rows_looked_at(elements: int, hidden: int) -> int:
    """The number of rows to check: about `elements` elements in all, at least LEAST_ROWS rows."""
    return max(LEAST_ROWS, elements // hidden)


def error_u_max(direction: AnyDirection, arrays: Buffers, error_rows: int, eps: float) -> float:
    """Largest error, in units of u, of evenly spaced rows of y, dx or both, including first and last."""
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

"""Fused layer normalization on the CPU: each pass reads a row from memory once, then works on it in cache.

The arithmetic is in `numba_forward` and `numba_backward`, the loops over rows in `numba_chunks`, the compiled
functions in `numba_passes`, the choices that depend on the machine in `numba_plan`, and what calls of one
kind have in common in `numba_calls`. The forward pass saves the statistics, not x_hat; the backward pass
reads x again. 16-bit x has statistics and sums in float32, and gamma in its own dtype or in float32.

The threads are Numba's. Several threads of a program may call at the same time if Numba's threading layer is
OpenMP or TBB; its own layer, workqueue, then ends the process. After a call a process must not fork; it may
spawn.
"""

from collections.abc import Iterable
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward import numba_cache
from layernorm_backward.aligned import PAGE, aligned_empty, farthest_page_offset
from layernorm_backward.kernels import Kernel, checks, numba_plan
from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.kernels.numba_calls import Call, Kind, cached_call, call
from layernorm_backward.kernels.numba_plan import Plan

_UNEXPLAINED = "a pass refuses arrays that the checks allow"
numba_cache.ensure()


class Saved(NamedTuple):
    """x (..., D), gamma (D,) as given; mean, rstd (..., 1) in the dtype of the sums."""

    x: NDArray
    mean: NDArray
    rstd: NDArray
    gamma: NDArray


def forward(
    x: NDArray,
    gamma: NDArray,
    beta: NDArray,
    eps: float,
    out: NDArray | None = None,
    plan: Plan | None = None,
) -> tuple[NDArray, Saved]:
    """y (..., D) in x's dtype. An array that is not C-contiguous is copied first, or y copied last."""
    usual = plan is None and type(x) is type(gamma) is type(beta) is np.ndarray and type(eps) is float
    if not usual:
        eps = checks.forward(x, gamma, beta, eps)
    if not (x.flags.c_contiguous and (out is None or checks.fits(out, x.shape, x.dtype))):
        return _forward_of_copies(x, gamma, beta, eps, out, plan)
    kind = "forward", x.shape, x.dtype, gamma.dtype, numba_plan.tasks(x.size, x.itemsize)
    how = None if plan else cached_call(*kind)
    y = _new(how, x) if out is None else out
    how = how or _planned(kind, y, plan)
    mean, rstd = np.empty(how.per_row, how.wide), np.empty(how.per_row, how.wide)
    try:
        done = how.run(x.ravel(), gamma, beta, eps, y.ravel(), mean.ravel(), rstd.ravel())
    except TypeError:  # Numba's, for an array of another dtype or layout
        if not _plain(x, gamma, beta):
            return _forward_of_copies(x, gamma, beta, eps, out, plan)
        checks.forward(x, gamma, beta, eps)
        raise
    if not done:
        checks.forward(x, gamma, beta, eps)
        checks.output("out", y, x.shape, x.dtype, (x, gamma, beta))
        raise AssertionError(_UNEXPLAINED)
    return y, tuple.__new__(Saved, (x, mean, rstd, gamma))  # Saved(...) is Python and takes thrice as long


def backward(
    dy: NDArray, saved: Saved, out: checks.Outputs | None = None, plan: Plan | None = None
) -> tuple[NDArray, NDArray, NDArray]:
    """dx (..., D) in x's dtype, dgamma and dbeta (D,) in gamma's; copies as in `forward`."""
    checks.saved_fields(saved, Saved)
    x, mean, rstd, gamma = saved
    if not type(x) is type(mean) is type(rstd) is type(gamma) is np.ndarray:
        checks.saved(x=x, mean=mean, rstd=rstd, gamma=gamma)
    checks.backward(dy, x.shape, x.dtype)
    if plan:
        checks.saved_statistics(*saved)
    plain = dy.flags.c_contiguous and x.flags.c_contiguous and mean.flags.c_contiguous
    wanted = x.shape, x.dtype, gamma.dtype
    if not (plain and rstd.flags.c_contiguous and (out is None or checks.all_fit(out, *wanted))):
        return _backward_of_copies(dy, saved, out, plan)
    kind = "backward", *wanted, numba_plan.tasks(x.size, x.itemsize)
    how = None if plan else cached_call(*kind)
    results = out or (_new(how, x, dy), *(np.empty(x.shape[-1:], gamma.dtype) for _ in range(2)))
    dx, dgamma, dbeta = results
    how = how or _planned(kind, dx, plan)
    try:
        given = dy.ravel(), x.ravel(), mean.ravel(), rstd.ravel(), gamma
        done = how.run(*given, dx.ravel(), dgamma, dbeta)
    except TypeError:
        if not _plain(dy, *saved):
            return _backward_of_copies(dy, saved, out, plan)
        checks.saved_statistics(*saved)
        raise
    if not done:
        checks.saved_statistics(*saved)
        checks.gradients(results, *wanted, (dy, *saved))
        raise AssertionError(_UNEXPLAINED)
    return dx, dgamma, dbeta


def _new(how: Call | None, *given: NDArray) -> NDArray:
    """An uninitialized result of the shape and dtype of those given; how: its call, if it is cache-resident.

    One that goes past the caches begins at a cache line, which the faster code requires, and far from x and
    dy modulo a page: a load may have to wait for an earlier store to the same address modulo 4096, and a
    result that begins 64 bytes farther into a page than x delays everything that follows. A cache-resident
    result gains less than it takes to find such an address: the arrays have evicted Python's own code and
    data.
    """
    shape, dtype = given[0].shape, given[0].dtype
    if how:
        return np.empty(shape, dtype)
    return aligned_empty(shape, dtype, PAGE, farthest_page_offset(*given) // LINE * LINE)


def _planned(kind: Kind, result: NDArray, plan: Plan | None) -> Call:
    """The call by the given plan, or by the chosen one, which writes the result by non-temporal stores."""
    direction, (*lead, hidden), dtype, _, threads = kind
    if plan:
        plan = numba_plan.checked(plan)
    else:
        plan = numba_plan.choose(prod(lead), hidden, dtype, direction, threads)
    return call(*kind, result.ctypes.data % LINE if plan.stream else None, plan)


def _forward_of_copies(
    x: NDArray, gamma: NDArray, beta: NDArray, eps: float, out: NDArray | None, plan: Plan | None
) -> tuple[NDArray, Saved]:
    """`forward` on C-contiguous, aligned copies of the arrays that are not so."""
    eps = checks.forward(x, gamma, beta, eps)
    y = checks.output("out", out, x.shape, x.dtype, (x, gamma, beta))
    given = [checks.HOST.to_plain(array) for array in (x, gamma, beta)]
    found, saved = forward(*given, eps, _target(y), plan)
    _copy_back([found], [y])
    return y, saved._replace(x=x, gamma=gamma)


def _backward_of_copies(
    dy: NDArray, saved: Saved, out: checks.Outputs | None, plan: Plan | None
) -> tuple[NDArray, NDArray, NDArray]:
    x, _, _, gamma = saved
    checks.saved_statistics(*saved)
    results = checks.gradients(out, x.shape, x.dtype, gamma.dtype, (dy, *saved))
    dy, *saved = [checks.HOST.to_plain(array) for array in (dy, *saved)]
    _copy_back(backward(dy, Saved(*saved), tuple(map(_target, results)), plan), results)
    return results


def _plain(*arrays: NDArray) -> bool:
    return all(map(checks.HOST.plain, arrays))


def _target(result: NDArray) -> NDArray:
    """The array that a pass writes: the result itself (a memory map, too), or a new one to copy from."""
    there = np.asarray(result)
    return there if checks.fits(there, result.shape, result.dtype) else np.empty(result.shape, result.dtype)


def _copy_back(found: Iterable[NDArray], results: Iterable[NDArray]) -> None:
    for one, result in zip(found, results, strict=True):
        if not np.may_share_memory(one, result):
            result[...] = one


KERNEL = Kernel(
    name="numba_fused",
    device="cpu",
    forward=forward,
    backward=backward,
    default_eps=1e-5,
    source="equations (1) to (11) and (14) of the paper, compiled by Numba",
)

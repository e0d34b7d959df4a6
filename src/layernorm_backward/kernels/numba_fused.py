"""One pass over memory each way: a row is read once, all else about it happens while it is in the cache.

The arithmetic is in `numba_forward` and `numba_backward`, the order of the rows in `numba_chunks`, what is
compiled in `numba_passes`, what depends on the machine in `numba_plan`, and what calls of one kind have in
common in `numba_calls`. Saved are the statistics, not x_hat; x is read again. 16-bit x has statistics and
sums in float32, and gamma in its own dtype or in float32.

The threads are Numba's. Several threads of a program may call at once where Numba works with OpenMP or TBB;
its own layer, workqueue, ends the process then. After a call a process must not fork, but may spawn.
"""

from collections.abc import Iterable
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward import numba_cache
from layernorm_backward.aligned import PAGE, aligned_empty, apart
from layernorm_backward.kernels import Kernel, checks, numba_plan
from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.kernels.numba_calls import Call, Kind, call, kept
from layernorm_backward.kernels.numba_plan import Plan

_UNTOLD = "a pass refuses arrays that the checks allow"
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
    how = None if plan else kept(*kind)
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
        raise AssertionError(_UNTOLD)
    return y, tuple.__new__(Saved, (x, mean, rstd, gamma))  # Saved(...) is Python and takes thrice as long


def backward(
    dy: NDArray, saved: Saved, out: checks.Outputs | None = None, plan: Plan | None = None
) -> tuple[NDArray, NDArray, NDArray]:
    """dx (..., D) in x's dtype, dgamma and dbeta (D,) in gamma's; copies as in `forward`."""
    checks.whole(saved, Saved)
    x, mean, rstd, gamma = saved
    if not type(x) is type(mean) is type(rstd) is type(gamma) is np.ndarray:
        checks.saved(x=x, mean=mean, rstd=rstd, gamma=gamma)
    checks.backward(dy, x.shape, x.dtype)
    if plan:
        checks.kept(*saved)
    plain = dy.flags.c_contiguous and x.flags.c_contiguous and mean.flags.c_contiguous
    wanted = x.shape, x.dtype, gamma.dtype
    if not (plain and rstd.flags.c_contiguous and (out is None or checks.all_fit(out, *wanted))):
        return _backward_of_copies(dy, saved, out, plan)
    kind = "backward", *wanted, numba_plan.tasks(x.size, x.itemsize)
    how = None if plan else kept(*kind)
    results = out or (_new(how, x, dy), *(np.empty(x.shape[-1:], gamma.dtype) for _ in range(2)))
    dx, dgamma, dbeta = results
    how = how or _planned(kind, dx, plan)
    try:
        given = dy.ravel(), x.ravel(), mean.ravel(), rstd.ravel(), gamma
        done = how.run(*given, dx.ravel(), dgamma, dbeta)
    except TypeError:
        if not _plain(dy, *saved):
            return _backward_of_copies(dy, saved, out, plan)
        checks.kept(*saved)
        raise
    if not done:
        checks.kept(*saved)
        checks.gradients(results, *wanted, (dy, *saved))
        raise AssertionError(_UNTOLD)
    return dx, dgamma, dbeta


def _new(how: Call | None, *given: NDArray) -> NDArray:
    """A result like those given; how: its call, if that keeps it in the caches.

    It begins at a cache line, as the faster code wants it. A load may have to wait for an earlier store at
    the same place of another page: a result that begins 64 bytes farther into a page than x holds up all that
    follows. What stays in the caches may gain less than it takes to find such a place: Python is slow there,
    since the arrays have pushed it out of the caches.
    """
    shape, dtype = given[0].shape, given[0].dtype
    if how and how.anywhere:
        return np.empty(shape, dtype)
    return aligned_empty(shape, dtype, PAGE, apart(*given) // LINE * LINE)


def _planned(kind: Kind, result: NDArray, plan: Plan | None) -> Call:
    """The call by a plan that is given, or by one whose result goes past the caches."""
    direction, (*lead, hidden), dtype, _, threads = kind
    if plan:
        plan = numba_plan.checked(plan)
    else:
        plan = numba_plan.choose(prod(lead), hidden, dtype, direction, threads)
    return call(*kind, result.ctypes.data % LINE if plan.stream else None, plan)


def _forward_of_copies(
    x: NDArray, gamma: NDArray, beta: NDArray, eps: float, out: NDArray | None, plan: Plan | None
) -> tuple[NDArray, Saved]:
    """`forward` by way of plain arrays in the place of those that are not."""
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
    checks.kept(*saved)
    results = checks.gradients(out, x.shape, x.dtype, gamma.dtype, (dy, *saved))
    dy, *saved = [checks.HOST.to_plain(array) for array in (dy, *saved)]
    _copy_back(backward(dy, Saved(*saved), tuple(map(_target, results)), plan), results)
    return results


def _plain(*arrays: NDArray) -> bool:
    return all(map(checks.HOST.plain, arrays))


def _target(result: NDArray) -> NDArray:
    """Where a result is written: where it is wanted (a memory map, too), or memory to copy from."""
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

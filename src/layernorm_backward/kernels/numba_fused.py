"""One pass over memory each way: a row is read once, all else about it happens while it is in the cache.

The arithmetic is in `numba_forward` and `numba_backward`, the order of the rows in `numba_chunks`, what is
compiled in `numba_passes`, and what depends on the machine in `numba_plan`. Saved are the statistics, not
x_hat; x is read again. 16-bit x has statistics and sums in float32, and gamma in its own dtype or in float32.

The threads are Numba's. Several threads of a program may call at once where Numba works with OpenMP or TBB;
its own layer, workqueue, ends the process then. After a call a process must not fork, but may spawn.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from layernorm_backward.dtypes import name_of, sum_dtype
from layernorm_backward.kernels import Kernel, checks, numba_pace, numba_plan, numba_scratch, processor
from layernorm_backward.kernels.lane_memory import as_stored, in_columns, in_lanes, parity_lanes
from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.kernels.numba_passes import backward_pass, forward_pass
from layernorm_backward.kernels.numba_plan import Plan
from layernorm_backward.kernels.numba_sharing import pieces
from layernorm_backward.kernels.numba_walk import LEAD


class _Call(NamedTuple):
    """What calls of one kind have in common.

    The code of `numba_passes` that runs and its walk: D, elements to ask ahead, and the element from which on
    whole lines are streamed, or -1. Its scratch, and the pieces of the work by task. The dtype of the sums,
    and lanes of a line where vectors go in and out in the order of `lane_memory.in_lanes`, else 0.
    """

    compiled: Callable[..., None]
    walk: tuple[int, int, int]
    scratch: numba_scratch.Layout
    pieces: NDArray[np.intp]
    wide: np.dtype
    parity: int


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
    eps = checks.forward(x, gamma, beta, eps, {})
    given = x, gamma, beta
    y = checks.output("out", out, x.shape, x.dtype, ())
    hidden, rows, threads = x.shape[-1], x.size // x.shape[-1], get_num_threads()
    plan = numba_plan.checked(plan) if plan else numba_plan.choose(rows, hidden, x.dtype, "forward", threads)
    plain = _plain(*given, y)
    result = y if plain or _plain(y) else np.empty(y.shape, y.dtype)
    call = _call("forward", plan, rows, hidden, x.dtype, _begin(result, plan), threads)
    copied = not plain or call.parity or gamma.dtype != call.wide
    if copied:
        checks.output("out", y, x.shape, x.dtype, given)
    per_row = (*x.shape[:-1], 1)
    mean, rstd = np.empty(per_row, call.wide), np.empty(per_row, call.wide)
    disjoint = call.compiled(
        _flat(x, plain),
        _widened(gamma, plain, call),
        _widened(beta, plain, call),
        call.wide.type(eps),
        _flat(result, plain),
        mean.ravel(),
        rstd.ravel(),
        np.empty(call.scratch.size, call.wide),
        call.scratch.places,
        call.pieces,
        *call.walk,
    )
    if not disjoint:
        checks.output("out", y, x.shape, x.dtype, given)
    if result is not y:
        y[...] = result
    return y, Saved(x, mean, rstd, gamma)


def backward(
    dy: NDArray, saved: Saved, out: checks.Outputs | None = None, plan: Plan | None = None
) -> tuple[NDArray, NDArray, NDArray]:
    """dx (..., D) in x's dtype, dgamma and dbeta (D,) in gamma's; copies as in `forward`."""
    if not (isinstance(saved, tuple) and len(saved) == len(Saved._fields)):
        raise TypeError(f"saved is a {type(saved).__qualname__}; allowed: what forward returned")
    x, mean, rstd, gamma = saved
    checks.backward(dy, x.shape, x.dtype)
    if gamma.shape != x.shape[-1:]:
        raise ValueError(f"saved gamma has shape {gamma.shape}; allowed: {x.shape[-1:]}, the last axis of x")
    given, wanted = (dy, x, mean, rstd, gamma), (x.shape, x.dtype, gamma.dtype)
    results = checks.gradients(out, *wanted, None)
    hidden, rows, threads = x.shape[-1], x.size // x.shape[-1], get_num_threads()
    plan = numba_plan.checked(plan) if plan else numba_plan.choose(rows, hidden, x.dtype, threads=threads)
    plain = _plain(*given, *results)
    dx, dgamma, dbeta = results
    dx = dx if plain or _plain(dx) else np.empty(x.shape, x.dtype)
    call = _call("backward", plan, rows, hidden, x.dtype, _begin(dx, plan), threads)
    checks.per_row("mean", mean, rows, call.wide)
    checks.per_row("rstd", rstd, rows, call.wide)
    copied = not plain or call.parity or gamma.dtype != call.wide
    if copied:
        checks.gradients(results, *wanted, given)
        dgamma, dbeta = (np.empty(in_lanes(dgamma, call.parity).shape, call.wide) for _ in range(2))
    disjoint = call.compiled(
        _flat(dy, plain),
        _flat(x, plain),
        _flat(mean, plain),
        _flat(rstd, plain),
        _widened(gamma, plain, call),
        _flat(dx, plain),
        dgamma,
        dbeta,
        np.empty(call.scratch.size, call.wide),
        call.scratch.places,
        call.pieces,
        plan.block,
        *call.walk,
        plan.recentre or None,
    )
    if not disjoint:
        checks.gradients(results, *wanted, given)
    if dx is not results[0]:
        results[0][...] = dx
    if copied:
        _narrow(dgamma, results[1], call)
        _narrow(dbeta, results[2], call)
    return results


def _begin(result: NDArray, plan: Plan) -> int:
    """Bytes from the line in which streamed results begin to their own beginning; 0 for stored ones."""
    return result.ctypes.data % LINE if plan.stream else 0


@lru_cache(numba_plan.SHAPES)
def _call(
    direction: str, plan: Plan, rows: int, hidden: int, dtype: np.dtype, begin: int, threads: int
) -> _Call:
    name, wide, lanes = name_of(dtype), sum_dtype(dtype), LINE // dtype.itemsize
    first = -begin % LINE // dtype.itemsize if plan.stream else -1
    ragged = hidden % lanes > 0 or first > 0
    group = plan.group
    if ragged:
        how = processor.few_registers(), processor.asks_far()
        group = numba_pace.ragged_group(group, hidden * dtype.itemsize, direction, *how)
    columns = -(-hidden // lanes) * lanes
    lag = plan.lag and group > 1 and not ragged and columns >= 2 * LEAD * lanes
    walk: tuple[int, ...] = hidden, plan.ahead * lanes, plan.spread * lanes, first
    units = plan.chunks if direction == "backward" else max(plan.chunks, min(rows, threads))
    tasks = max(1, min(threads, units))
    if direction == "backward":
        widened = plan.widened and group == 1
        compiled = backward_pass(name, group, ragged, widened=widened, lag=lag, recentre=plan.recentre)
        walk = *walk, plan.stretch
        scratch = numba_scratch.of_backward(
            units, plan.block, plan.stretch, rows, tasks, columns, wide.itemsize, widened
        )
    else:
        compiled = forward_pass(name, group, ragged, lag=lag)
        scratch = numba_scratch.of_forward(columns, wide.itemsize)
    return _Call(compiled, walk, scratch, pieces(units, tasks, not plan.stream), wide, parity_lanes(dtype))


def _widened(vector: NDArray, plain: bool, call: _Call) -> NDArray:
    """gamma or beta (D,) as `numba_passes` takes it."""
    if vector.dtype != call.wide or not plain:
        vector = np.require(vector, call.wide, "CA")
    return in_lanes(vector, call.parity)


def _narrow(total: NDArray, vector: NDArray, call: _Call) -> None:
    """Copy dgamma or dbeta to where it is wanted; a sum that is too large for 16 bits gets inf."""
    with np.errstate(over="ignore"):
        vector[...] = in_columns(total, call.parity)[: vector.size]


def _flat(array: NDArray, plain: bool) -> NDArray:
    """All elements in one row, in C order, as `lanes` takes them; copied where the array is not plain."""
    return as_stored((array if plain else np.require(array, requirements="CA")).ravel())


def _plain(*arrays: NDArray) -> bool:
    """Whether the elements of all arrays lie behind each other in C order, each where its dtype may."""
    return all([(flags := array.flags).c_contiguous and flags.aligned for array in arrays])


KERNEL = Kernel(
    name="numba_fused",
    device="cpu",
    forward=forward,
    backward=backward,
    default_eps=1e-5,
    source="equations (1) to (11) and (14) of the paper, compiled by Numba",
)

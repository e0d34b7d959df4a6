"""One pass over memory each way: a row is read once, all else about it happens while it is in the cache.

The arithmetic is in `numba_forward` and `numba_backward`, the order of the rows in `numba_chunks`, what is
compiled in `numba_passes`, and what depends on the machine in `numba_plan`. Saved are the statistics, not
x_hat; x is read again. 16-bit x has statistics and sums in float32, and gamma in its own dtype or in float32.

The threads are Numba's. Several threads of a program may call at once where Numba works with OpenMP or TBB;
its own layer, workqueue, ends the process then. After a call a process must not fork, but may spawn.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.dtypes import name_of, sum_dtype
from layernorm_backward.kernels import Kernel, checks, numba_pace, numba_plan, numba_scratch, processor
from layernorm_backward.kernels.lane_memory import as_stored
from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.kernels.numba_passes import backward_pass, forward_pass
from layernorm_backward.kernels.numba_plan import Plan
from layernorm_backward.kernels.numba_sharing import pieces
from layernorm_backward.kernels.numba_vectors import Vectors, between
from layernorm_backward.kernels.numba_walk import LEAD


class _Call(NamedTuple):
    """What calls of one kind have in common.

    The code of `numba_passes` that runs and its walk: D, elements to ask ahead, and the element from which on
    whole lines are streamed, or -1. Its scratch, and the pieces of the work by task. The dtype of the sums, D
    in whole lines, and what converts gamma and its like where they are not of that dtype and order.
    """

    compiled: Callable[..., bool]
    walk: tuple[int, int, int]
    scratch: numba_scratch.Layout
    pieces: NDArray[np.intp]
    wide: np.dtype
    columns: int
    vectors: Vectors | None


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
    eps = checks.forward(x, gamma, beta, eps)
    given = x, gamma, beta
    y = checks.output("out", out, x.shape, x.dtype, ())
    hidden, rows, threads = x.shape[-1], x.size // x.shape[-1], numba_plan.tasks(x.size, x.itemsize)
    plan = numba_plan.checked(plan) if plan else numba_plan.choose(rows, hidden, x.dtype, "forward", threads)
    plain = _plain(*given, y)
    if not plain:
        checks.output("out", y, x.shape, x.dtype, given)
    (result,) = (y,) if plain else _targets(y)
    call = _call("forward", plan, rows, hidden, x.dtype, gamma.dtype, _begin(result, plan), threads)
    per_row = (*x.shape[:-1], 1)
    mean, rstd = np.empty(per_row, call.wide), np.empty(per_row, call.wide)
    arrays = _flat(plain, *given, result)
    apart, wide = True, arrays[1:3]
    if call.vectors:
        wide = [np.empty(call.columns, call.wide) for _ in wide]
        apart = call.vectors.before_forward(*arrays, *wide)
    apart = apart and call.compiled(
        arrays[0],
        *wide,
        call.wide.type(eps),
        arrays[3],
        mean.ravel(),
        rstd.ravel(),
        np.empty(call.scratch.size, call.wide),
        call.scratch.places,
        call.pieces,
        *call.walk,
    )
    if not apart:
        checks.output("out", y, x.shape, x.dtype, given)
    if not plain:
        _copy_back([result], [y])
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
    hidden, rows, threads = x.shape[-1], x.size // x.shape[-1], numba_plan.tasks(x.size, x.itemsize)
    plan = numba_plan.checked(plan) if plan else numba_plan.choose(rows, hidden, x.dtype, threads=threads)
    plain = _plain(*given, *results)
    if not plain:
        checks.gradients(results, *wanted, given)
    targets = results if plain else _targets(*results)
    call = _call("backward", plan, rows, hidden, x.dtype, gamma.dtype, _begin(targets[0], plan), threads)
    checks.per_row("mean", mean, rows, call.wide)
    checks.per_row("rstd", rstd, rows, call.wide)
    arrays = _flat(plain, *given, *targets)
    apart, wide = True, (arrays[4], *arrays[6:])
    if call.vectors:
        wide = [np.empty(call.columns, call.wide) for _ in wide]
        apart = call.vectors.before_backward(*arrays, wide[0])
    apart = apart and call.compiled(
        *arrays[:4],
        wide[0],
        arrays[5],
        *wide[1:],
        np.empty(call.scratch.size, call.wide),
        call.scratch.places,
        call.pieces,
        plan.block,
        *call.walk,
        plan.recentre or None,
    )
    if not apart:
        checks.gradients(results, *wanted, given)
    if call.vectors:
        call.vectors.after_backward(*wide[1:], *arrays[6:])
    if not plain:
        _copy_back(targets, results)
    return results


def _begin(result: NDArray, plan: Plan) -> int:
    """Bytes from the line in which streamed results begin to their own beginning; 0 for stored ones."""
    return result.ctypes.data % LINE if plan.stream else 0


@lru_cache(numba_plan.SHAPES)
def _call(
    direction: str,
    plan: Plan,
    rows: int,
    hidden: int,
    dtype: np.dtype,
    gamma_dtype: np.dtype,
    begin: int,
    threads: int,
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
    converted = between(name, name_of(gamma_dtype))
    return _Call(compiled, walk, scratch, pieces(units, tasks, not plan.stream), wide, columns, converted)


def _targets(*results: NDArray) -> list[NDArray]:
    """Where results are written: where they are wanted, or memory to copy from."""
    return [result if _plain(result) else np.empty(result.shape, result.dtype) for result in results]


def _copy_back(targets: Iterable[NDArray], results: Iterable[NDArray]) -> None:
    for target, result in zip(targets, results, strict=True):
        if target is not result:
            result[...] = target


def _flat(plain: bool, *arrays: NDArray) -> list[NDArray]:
    """All elements of each in one row, in C order, as `lanes` takes them; copied where it is not plain."""
    if not plain:
        arrays = tuple(np.require(array, requirements="CA") for array in arrays)
    rows = [array.ravel() for array in arrays]
    return rows if rows[0].itemsize > 2 else [as_stored(row) for row in rows]


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

"""One pass over memory each way: a row is read once, all else about it happens while it is in the cache.

The arithmetic is in `numba_forward` and `numba_backward`, the order of the rows in `numba_chunks`, and what
depends on the machine in `numba_plan`. Saved are the statistics, not x_hat; x is read again. 16-bit x has
statistics and sums in float32, and gamma in its own dtype or in float32.
"""

from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from layernorm_backward.aligned import aligned_empty
from layernorm_backward.dtypes import name_of, sum_dtype
from layernorm_backward.kernels import Kernel, checks, numba_plan
from layernorm_backward.kernels.lane_memory import as_stored, in_columns, in_lanes
from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.kernels.numba_chunks import APART, backward_pass, forward_pass
from layernorm_backward.kernels.numba_plan import Plan
from layernorm_backward.work_sharing import pieces, untaken

PAGE = 4096  # bytes
ASIDE = 384  # bytes, six lines: three to eight are as fast


class _How(NamedTuple):
    """Which code of `numba_chunks` runs: rows in a group, and whether rows have parts of lines.

    Its walk: D, elements to ask ahead, and the element from which on whole lines are streamed, or -1.
    """

    group: int
    ragged: bool
    walk: tuple[int, int, int]

    @property
    def streamed(self) -> bool:
        return self.walk[-1] >= 0


class Saved(NamedTuple):
    """x (..., D), gamma (D,) as given; mean, rstd (..., 1) in the dtype of the sums."""

    x: NDArray
    mean: NDArray
    rstd: NDArray
    gamma: NDArray


@checks.ieee
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
    y = checks.output("out", out, x.shape, x.dtype, (x, gamma, beta))
    hidden, rows = x.shape[-1], x.size // x.shape[-1]
    plan = numba_plan.checked(plan) if plan else numba_plan.choose(rows, hidden, x.dtype, "forward")
    wide = sum_dtype(x.dtype)
    mean, rstd = np.empty((2, rows), wide)
    result = y if _plain(y) else np.empty(y.shape, y.dtype)
    how = _how(plan, result)
    vectors = aligned_empty((2, _columns(hidden, x.dtype, how)), wide)
    _pad(vectors[0], gamma, x.dtype, how)
    _pad(vectors[1], beta, x.dtype, how)
    shared = _shared(max(plan.chunks, min(rows, get_num_threads())))
    compiled = forward_pass(name_of(x.dtype), how.group, how.ragged)
    compiled(_flat(x), *vectors, wide.type(eps), _flat(result), mean, rstd, *shared, *how.walk)
    if result is not y:
        y[...] = result
    per_row = (*x.shape[:-1], 1)
    return y, Saved(x, mean.reshape(per_row), rstd.reshape(per_row), gamma)


@checks.ieee
def backward(
    dy: NDArray, saved: Saved, out: checks.Outputs | None = None, plan: Plan | None = None
) -> tuple[NDArray, NDArray, NDArray]:
    """dx (..., D) in x's dtype, dgamma and dbeta (D,) in gamma's; copies as in `forward`."""
    x, mean, rstd, gamma = saved
    checks.backward(dy, x.shape, x.dtype)
    dx, dgamma, dbeta = checks.gradients(out, x.shape, x.dtype, gamma.dtype, (dy, x, mean, rstd, gamma))
    hidden, rows = x.shape[-1], x.size // x.shape[-1]
    plan = numba_plan.checked(plan) if plan else numba_plan.choose(rows, hidden, x.dtype)
    result = dx if _plain(dx) else np.empty(dx.shape, dx.dtype)
    how = _how(plan, result)
    tasks, *shared = _shared(plan.chunks)
    vector, *scratch = _held(plan, rows, tasks, _columns(hidden, x.dtype, how), mean.dtype)
    _pad(vector, gamma, x.dtype, how)
    statistics = mean.reshape(rows), rstd.reshape(rows)
    compiled = backward_pass(name_of(x.dtype), how.group, how.ragged, plan.recentre)
    compiled(
        _flat(dy),
        _flat(x),
        *statistics,
        vector,
        _flat(result),
        *scratch,
        *shared,
        plan.block,
        *how.walk,
        plan.recentre or None,
    )
    if result is not dx:
        dx[...] = result
    for vector, total in zip((dgamma, dbeta), scratch[0][0].reshape(2, -1), strict=True):
        vector[...] = (total if how.ragged else in_columns(total, x.dtype, LINE // x.itemsize))[:hidden]
    return dx, dgamma, dbeta


def _how(plan: Plan, result: NDArray) -> _How:
    hidden, lanes = result.shape[-1], LINE // result.itemsize
    first = -result.ctypes.data % LINE // result.itemsize if plan.stream else -1
    ragged = hidden % lanes > 0 or first > 0
    return _How(1 if ragged else plan.group, ragged, (hidden, plan.ahead * lanes, first))


def _shared(units: int) -> tuple[int, NDArray, NDArray]:
    """Tasks, and the pieces of the work and their counter."""
    tasks = max(1, min(get_num_threads(), units))
    return tasks, pieces(units, tasks), untaken()


def _held(plan: Plan, rows: int, tasks: int, columns: int, dtype: np.dtype) -> tuple[NDArray, ...]:
    """gamma (columns,), sums (chunks, 2*columns), levels (tasks, n, 2*columns), parts (tasks, more).

    Not initialized.
    """
    size, places = _layout(plan.chunks, plan.block, rows, tasks, columns, dtype.itemsize)
    held = aligned_empty(size, np.uint8)
    return tuple(np.ndarray(shape, dtype, held, start) for start, shape in places)


@lru_cache(numba_plan.SHAPES)
def _layout(
    chunks: int, block: int, rows: int, tasks: int, columns: int, itemsize: int
) -> tuple[int, tuple[tuple[int, tuple[int, ...]], ...]]:
    """Bytes in all, and where each array of `_held` begins, with its shape.

    A load waits for a store just before it at the same place modulo 4096. So the sums of dgamma and of dbeta
    lie half a page apart, and those of short rows lie neither where gamma does nor where rows do.
    """
    vector, blocks = columns * itemsize, -(-rows // block)
    carried = max(0, -(-blocks // chunks) - 1)
    part = 2 * columns + (APART + (PAGE // 2 - vector) % PAGE) // itemsize
    shapes = (tasks, part), (chunks, 2 * columns), (tasks, carried.bit_length(), 2 * columns)
    starts = [ASIDE if vector <= 2 * PAGE else 0]
    for shape in shapes:
        starts.append(starts[-1] + prod(shape) * itemsize)
    gamma = -(-starts.pop() // PAGE) * PAGE
    parts, sums, levels = zip(starts, shapes, strict=True)
    return gamma + vector, ((gamma, (columns,)), sums, levels, parts)


def _columns(hidden: int, dtype: np.dtype, how: _How) -> int:
    """Of gamma, beta and the sums as `numba_chunks` wants them for x of a dtype."""
    lanes = LINE // dtype.itemsize
    return -(-hidden // lanes) * lanes + (lanes if how.ragged and how.streamed else 0)


def _pad(padded: NDArray, vector: NDArray, dtype: np.dtype, how: _How) -> None:
    """Write a vector (D,) as `numba_chunks` wants it for x of a dtype."""
    if how.ragged:
        padded[: vector.size], padded[vector.size :] = vector, 0
    else:
        padded[:] = in_lanes(vector, dtype, LINE // dtype.itemsize)


def _flat(array: NDArray) -> NDArray:
    """All elements in one row, in C order, as `lanes` takes them."""
    plain = array if _plain(array) else np.require(array, requirements="CA")
    return as_stored(plain.reshape(-1))


def _plain(array: NDArray) -> bool:
    return array.flags.c_contiguous and array.flags.aligned


KERNEL = Kernel(
    name="numba_fused",
    device="cpu",
    forward=forward,
    backward=backward,
    default_eps=1e-5,
    source="equations (1) to (11) and (14) of the paper, compiled by Numba",
)

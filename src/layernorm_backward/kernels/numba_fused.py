"""One pass over memory each way: a row is read once, all else about it happens while it is in the cache.

The arithmetic is in `numba_rows`, the order of the rows in `numba_chunks`, and what depends on the machine in
`numba_plan`. Saved are the statistics, not x_hat; x is read again. 16-bit x has statistics and sums in
float32, and gamma in its own dtype or in float32.
"""

from typing import NamedTuple

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from layernorm_backward.aligned import aligned_empty
from layernorm_backward.dtypes import sum_dtype
from layernorm_backward.kernels import Kernel, checks, numba_plan
from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.kernels.numba_chunks import add_chunks, passes
from layernorm_backward.kernels.numba_plan import Plan

_INTEGERS = {"float16": np.int16, "bfloat16": np.uint16}


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
    plan = plan or numba_plan.choose(rows, hidden, x.dtype, arrays=2)
    wide = sum_dtype(x.dtype)
    mean, rstd = np.empty((2, rows), wide)
    result = y if _plain(y) else np.empty(y.shape, y.dtype)
    vectors = _padded(gamma, wide, x.dtype), _padded(beta, wide, x.dtype)
    tasks = max(1, min(get_num_threads(), rows))
    passes(x.dtype.name).forward(
        _flat(x), *vectors, wide.type(eps), _flat(result), mean, rstd, tasks, *_how(plan, result)
    )
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
    plan = plan or numba_plan.choose(rows, hidden, x.dtype)
    result = dx if _plain(dx) else np.empty(dx.shape, dx.dtype)
    vector = _padded(gamma, mean.dtype, x.dtype)
    sums, levels, parts = _scratch(plan, rows, 2 * vector.size, mean.dtype)
    statistics = mean.reshape(rows), rstd.reshape(rows)
    passes(x.dtype.name, plan.recentre).backward(
        _flat(dy),
        _flat(x),
        *statistics,
        vector,
        _flat(result),
        sums,
        levels,
        parts,
        plan.block,
        *_how(plan, result),
        plan.recentre or None,
    )
    if result is not dx:
        dx[...] = result
    add_chunks(mean.dtype.name)(sums)
    dgamma[...], dbeta[...] = sums[0, :hidden], sums[0, vector.size : vector.size + hidden]
    return dx, dgamma, dbeta


def _how(plan: Plan, result: NDArray) -> tuple[int, int, int, bool]:
    """D, rows in a group, elements to ask ahead, and whether to stream: whole lines only can be."""
    hidden, itemsize = result.shape[-1], result.dtype.itemsize
    whole = result.ctypes.data % LINE == 0 and hidden * itemsize % LINE == 0
    return hidden, plan.group, plan.ahead * (LINE // itemsize), plan.stream and whole


def _scratch(plan: Plan, rows: int, columns: int, dtype: np.dtype) -> tuple[NDArray, NDArray, NDArray]:
    """sums (chunks, columns), levels (tasks, n, columns), parts (tasks, columns); not initialized."""
    tasks = min(get_num_threads(), plan.chunks)
    blocks = -(-rows // plan.block)
    levels = max(1, (-(-blocks // plan.chunks)).bit_length())
    shapes = (plan.chunks, columns), (tasks, levels, columns), (tasks, columns)
    return tuple(aligned_empty(shape, dtype) for shape in shapes)


def _padded(vector: NDArray, wide: np.dtype, stored: np.dtype) -> NDArray:
    """A vector (D,) in the dtype of the sums, with zeros behind it up to whole lines of x's dtype."""
    lanes = LINE // stored.itemsize
    padded = aligned_empty(-(-vector.size // lanes) * lanes, wide)
    padded[: vector.size], padded[vector.size :] = vector, 0
    return padded


def _flat(array: NDArray) -> NDArray:
    """All elements in one row, in C order; 16-bit ones as the integers that `lanes` takes."""
    flat = np.require(array, requirements="CA").reshape(-1)
    return flat.view(_INTEGERS.get(array.dtype.name, array.dtype))


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

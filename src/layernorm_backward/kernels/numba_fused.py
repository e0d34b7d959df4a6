"""One pass over memory each way: a row is read once, all else about it happens while it is in the cache.

Rows are cut into chunks whose number depends on N only. A chunk keeps its own sums for dgamma and dbeta,
which are then added in pairs in a fixed order: the same bits for any number of threads. The arithmetic, the
re-centring of the mean included, is in `numba_rows`. Saved are the statistics, not x_hat; x is read again.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.kernels import Kernel, checks
from layernorm_backward.kernels.numba_rows import ROWS, compiled

CHUNKS = 256  # at most so many: enough for many cores, and partial sums stay far smaller than x
_HALF = "Numba's CPU target has no float16 or bfloat16 arithmetic"
UNSUPPORTED = {"float16": _HALF, "bfloat16": _HALF}


class Saved(NamedTuple):
    """x (..., D), gamma (D,) as given; mean, rstd (..., 1): the rounded mean, rstd of the re-centred row."""

    x: NDArray
    mean: NDArray
    rstd: NDArray
    gamma: NDArray


@checks.ieee
def forward(
    x: NDArray, gamma: NDArray, beta: NDArray, eps: float, out: NDArray | None = None
) -> tuple[NDArray, Saved]:
    """y (..., D) in x's dtype. An array that is not C-contiguous is copied first, or y copied last."""
    eps = checks.forward(x, gamma, beta, eps, UNSUPPORTED)
    y = checks.output("out", out, x.shape, x.dtype, (x, gamma, beta))
    hidden, rows = x.shape[-1], x.size // x.shape[-1]
    mean, rstd = np.empty((2, rows), x.dtype)
    result = y if _plain(y) else np.empty(y.shape, y.dtype)
    arguments = (
        _rows(x),
        _contiguous(gamma),
        _contiguous(beta),
        x.dtype.type(eps),
        result.reshape(rows, hidden),
    )
    compiled(x.dtype)[0](*arguments, mean, rstd, chunks(rows))
    if result is not y:
        y[...] = result
    per_row = (*x.shape[:-1], 1)
    return y, Saved(x, mean.reshape(per_row), rstd.reshape(per_row), gamma)


@checks.ieee
def backward(
    dy: NDArray, saved: Saved, out: checks.Outputs | None = None
) -> tuple[NDArray, NDArray, NDArray]:
    """dx (..., D) in x's dtype, dgamma and dbeta (D,) in gamma's; copies as in `forward`."""
    x, mean, rstd, gamma = saved
    checks.backward(dy, x.shape, x.dtype)
    dx, dgamma, dbeta = checks.gradients(out, x.shape, x.dtype, gamma.dtype, (dy, x, mean, rstd, gamma))
    hidden, rows = x.shape[-1], x.size // x.shape[-1]
    sums = np.zeros((chunks(rows), 2, hidden), x.dtype)
    result = dx if _plain(dx) else np.empty(dx.shape, dx.dtype)
    statistics = mean.reshape(rows), rstd.reshape(rows)
    compiled(x.dtype)[1](
        _rows(dy), _rows(x), *statistics, _contiguous(gamma), result.reshape(rows, hidden), sums
    )
    if result is not dx:
        dx[...] = result
    dgamma[...], dbeta[...] = _sum_pairwise(sums)
    return dx, dgamma, dbeta


def chunks(rows: int) -> int:
    """Number of chunks for N rows: a whole chunk has at least 64 rows, and there is at least one chunk."""
    return max(1, min(rows // ROWS, CHUNKS))


def _sum_pairwise(sums: NDArray) -> NDArray:
    while len(sums) > 1:
        half = (len(sums) + 1) // 2
        sums[: len(sums) - half] += sums[half:]
        sums = sums[:half]
    return sums[0]


def _plain(array: NDArray) -> bool:
    return array.flags.c_contiguous and array.flags.aligned


def _contiguous(array: NDArray) -> NDArray:
    return np.require(array, requirements="CAE")


def _rows(array: NDArray) -> NDArray:
    return _contiguous(array).reshape(-1, array.shape[-1])


KERNEL = Kernel(
    name="numba_fused",
    device="cpu",
    forward=forward,
    backward=backward,
    default_eps=1e-5,
    source="equations (1) to (11) and (14) of the paper, compiled by Numba",
    unsupported=UNSUPPORTED,
)

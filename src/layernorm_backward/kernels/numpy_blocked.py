"""The fastest plain NumPy: `recentred` in cache-resident blocks of rows, with reused scratch memory.

Every operation is a ufunc on one block with `out`, or a sum of NumPy's: there is no temporary of x's size,
and no order of additions depends on a compiler or BLAS. The rounding error of the mean, `shift`, is saved
beside it: one number a row instead of a sweep over the row in the backward pass.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.dtypes import sum_dtype
from layernorm_backward.kernels import Kernel, checks
from layernorm_backward.kernels.row_blocks import RowSums, blocks, buffers_for


class Saved(NamedTuple):
    """x (..., D), gamma (D,) as given; mean, shift, rstd (..., 1) in the dtype of the sums.

    x_hat = ((x - mean) - shift) * rstd.
    """

    x: NDArray
    mean: NDArray
    shift: NDArray
    rstd: NDArray
    gamma: NDArray


@checks.ieee
def forward(
    x: NDArray, gamma: NDArray, beta: NDArray, eps: float, out: NDArray | None = None
) -> tuple[NDArray, Saved]:
    """y (..., D) in x's dtype. An array that is not C-contiguous is copied first, or y copied last."""
    eps = checks.forward(x, gamma, beta, eps)
    y = checks.output("out", out, x.shape, x.dtype, (x, gamma, beta))
    wide, hidden = sum_dtype(x.dtype), x.shape[-1]
    statistics = np.empty((3, x.size // hidden, 1), wide)
    vectors = gamma.astype(wide, copy=False), beta.astype(wide, copy=False)
    result, given = _contiguous(y), _rows(x)
    block = blocks(hidden, wide.itemsize).block
    scratch = np.empty((2, min(block, len(given)), hidden), wide)
    with buffers_for(hidden):
        for rows in _slices(len(given), block):
            _normalize(
                given[rows], *vectors, wide.type(eps), _rows(result)[rows], statistics[:, rows], scratch
            )
    _written(y, result)
    return y, Saved(x, *statistics.reshape(3, *x.shape[:-1], 1), gamma)


@checks.ieee
def backward(
    dy: NDArray, saved: Saved, out: checks.Outputs | None = None
) -> tuple[NDArray, NDArray, NDArray]:
    """dx (..., D) in x's dtype, dgamma and dbeta (D,) in gamma's; copies as in `forward`."""
    checks.saved_fields(saved, Saved)
    x, mean, shift, rstd, gamma = saved
    checks.backward(dy, x.shape, x.dtype)
    dx, dgamma, dbeta = checks.gradients(out, x.shape, x.dtype, gamma.dtype, (dy, *saved))
    wide, hidden = mean.dtype, x.shape[-1]
    statistics = [array.reshape(-1, 1) for array in (mean, shift, rstd)]
    result, upstream, given = _contiguous(dx), _rows(dy), _rows(x)
    sizes, weights = blocks(hidden, wide.itemsize), gamma.astype(wide, copy=False)
    sums = RowSums(sizes, hidden, wide), RowSums(sizes, hidden, wide)
    scratch = np.empty((1 if dx.dtype == wide else 3, min(sizes.block, len(given)), hidden), wide)
    with buffers_for(hidden):
        for rows in _slices(len(given), sizes.block):
            part = upstream[rows], given[rows], [array[rows] for array in statistics]
            _differentiate(*part, weights, _rows(result)[rows], sums, scratch)
        dgamma[...], dbeta[...] = (total.total() for total in sums)
    _written(dx, result)
    return dx, dgamma, dbeta


def _normalize(
    x: NDArray,
    gamma: NDArray,
    beta: NDArray,
    eps: np.floating,
    y: NDArray,
    statistics: NDArray,
    scratch: NDArray,
) -> None:
    mean, shift, rstd = statistics  # (rows, 1)
    z, squares = scratch[:, : len(x)]  # (rows, D)
    wide = _widened(x, z)
    _mean(wide, mean)
    np.subtract(wide, mean, out=z)
    z -= _mean(z, shift)
    _mean(np.multiply(z, z, out=squares), rstd)
    rstd += eps
    np.divide(1, np.sqrt(rstd, out=rstd), out=rstd)
    z *= rstd
    z *= gamma
    _stored(np.add, z, beta, y)


def _differentiate(
    dy: NDArray,
    x: NDArray,
    statistics: list[NDArray],
    gamma: NDArray,
    dx: NDArray,
    sums: tuple[RowSums, RowSums],
    scratch: NDArray,
) -> None:
    mean, shift, rstd = statistics  # (rows, 1)
    parts = scratch[:, : len(x)]  # (rows, D) each; float32 and float64 need one, since g is stored in dx
    x_hat, g, upstream = parts if len(parts) == 3 else (parts[0], dx, dy)
    dy = _widened(dy, upstream)
    np.subtract(_widened(x, x_hat), mean, out=x_hat)
    x_hat -= shift
    x_hat *= rstd
    np.multiply(dy, x_hat, out=g)
    sums[0].add(g)
    sums[1].add(dy)
    g *= gamma
    c2 = _mean(g)
    np.multiply(dy, gamma, out=g)
    g -= _mean(g)
    x_hat *= c2
    g -= x_hat
    _stored(np.multiply, g, rstd, dx)


def _mean(terms: NDArray, out: NDArray | None = None) -> NDArray:
    total = np.add.reduce(terms, axis=1, keepdims=True, out=out)
    total /= terms.dtype.type(terms.shape[1])
    return total


def _stored(operation: np.ufunc, a: NDArray, b: NDArray, out: NDArray) -> None:
    """out = operation(a, b), rounded last; `a` may be overwritten."""
    if out.dtype == a.dtype:
        operation(a, b, out=out)
    else:
        out[...] = operation(a, b, out=a)


def _widened(array: NDArray, scratch: NDArray) -> NDArray:
    if array.dtype == scratch.dtype:
        return array
    scratch[...] = array
    return scratch


def _slices(count: int, block: int) -> Iterator[slice]:
    return (slice(start, min(start + block, count)) for start in range(0, count, block))


def _rows(array: NDArray) -> NDArray:
    return np.require(array, requirements="CAE").reshape(-1, array.shape[-1])


def _contiguous(array: NDArray) -> NDArray:
    """The array itself, or a new one to be copied to it at the end."""
    return array if array.flags.c_contiguous and array.flags.aligned else np.empty(array.shape, array.dtype)


def _written(array: NDArray, result: NDArray) -> None:
    if result is not array:
        array[...] = result


KERNEL = Kernel(
    name="numpy_blocked",
    device="cpu",
    forward=forward,
    backward=backward,
    default_eps=1e-5,
    source="equations (1) to (11) of the paper with the mean re-centred, equation (13), in NumPy by blocks",
)

"""NumPy with the mean re-centred in both passes: an error in dx that does not grow with mean/std.

The rounded mean is off by up to kappa*u standard deviations. Equation (13), z = x - mean; z -= mean(z),
removes that error: the first subtraction is exact where it matters, and the rest of the mean is computed from
numbers no larger than the row's own spread. x is read again in the backward pass, so x_hat is not saved.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.dtypes import sum_dtype
from layernorm_backward.kernels import Kernel, checks


class Saved(NamedTuple):
    """x (..., D) and gamma (D,) as given; mean and rstd (..., 1) in the dtype of the sums."""

    x: NDArray
    mean: NDArray
    rstd: NDArray
    gamma: NDArray


@checks.ieee
def forward(
    x: NDArray, gamma: NDArray, beta: NDArray, eps: float, out: NDArray | None = None
) -> tuple[NDArray, Saved]:
    """y (..., D) in x's dtype. Sums in float32, or float64 for float64."""
    eps = checks.forward(x, gamma, beta, eps)
    y = checks.output("out", out, x.shape, x.dtype, (x, gamma, beta))
    wide = sum_dtype(x.dtype)
    mean = _wide(x, wide).mean(axis=-1, keepdims=True)  # (..., 1)
    z = _recentred(x, mean)  # (..., D)
    var = (z * z).mean(axis=-1, keepdims=True)  # (..., 1)
    rstd = 1 / np.sqrt(var + eps)  # (..., 1)
    z *= rstd
    z *= _wide(gamma, wide)
    np.add(z, _wide(beta, wide), out=y, casting="unsafe")
    return y, Saved(x, mean, rstd, gamma)


@checks.ieee
def backward(
    dy: NDArray, saved: Saved, out: checks.Outputs | None = None
) -> tuple[NDArray, NDArray, NDArray]:
    """dx (..., D) in x's dtype, dgamma and dbeta (D,) in gamma's."""
    checks.saved_fields(saved, Saved)
    x, mean, rstd, gamma = saved
    checks.backward(dy, x.shape, x.dtype)
    dx, dgamma, dbeta = checks.gradients(out, x.shape, x.dtype, gamma.dtype, (dy, x, mean, rstd, gamma))
    rows = tuple(range(x.ndim - 1))
    dy = _wide(dy, mean.dtype)  # (..., D)
    x_hat = _recentred(x, mean) * rstd  # (..., D)
    g = _wide(gamma, mean.dtype) * dy  # (..., D)
    c1 = g.mean(axis=-1, keepdims=True)  # (..., 1)
    c2 = (g * x_hat).mean(axis=-1, keepdims=True)  # (..., 1)
    np.multiply(rstd, g - c1 - x_hat * c2, out=dx, casting="unsafe")
    dgamma[...] = (dy * x_hat).sum(axis=rows)
    dbeta[...] = dy.sum(axis=rows)
    return dx, dgamma, dbeta


def _recentred(x: NDArray, mean: NDArray) -> NDArray:
    z = _wide(x, mean.dtype) - mean  # (13)  (..., D)
    z -= z.mean(axis=-1, keepdims=True)  # (13)  (..., D)
    return z


def _wide(array: NDArray, dtype: np.dtype) -> NDArray:
    return np.asanyarray(array, dtype, order="C")  # NumPy sums in pairs only along a contiguous axis


KERNEL = Kernel(
    name="recentred",
    device="cpu",
    forward=forward,
    backward=backward,
    default_eps=1e-5,
    source="equations (1) to (11) of the paper with the mean re-centred, equation (13), in NumPy",
)

"""Layer normalization and its gradients in float64, one line an equation, in the paper's numbering.

`forward_equations` and `backward_equations` are the mathematics, for float64 arrays of any leading
dimensions (complex128 too, for complex-step derivatives: nothing here conjugates). `KERNEL` wraps them:
inputs are widened to float64, results are rounded once, at the end, to the dtypes of the contract.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.dtypes import round_to
from layernorm_backward.kernels import Kernel, checks


class Forward(NamedTuple):
    """Every quantity of the forward pass; m, var, rstd are (..., 1), x_hat and y (..., D)."""

    mean: NDArray
    var: NDArray
    rstd: NDArray
    x_hat: NDArray
    y: NDArray


class Backward(NamedTuple):
    """Every quantity of the backward pass; g and dx are (..., D), c1, c2 (..., 1), dgamma, dbeta (D,)."""

    g: NDArray
    c1: NDArray
    c2: NDArray
    dx: NDArray
    dgamma: NDArray
    dbeta: NDArray


class Saved(NamedTuple):
    """float64 x_hat (..., D), rstd (..., 1), gamma (D,), and the dtypes that results are rounded to."""

    x_hat: NDArray[np.float64]
    rstd: NDArray[np.float64]
    gamma: NDArray[np.float64]
    dtype: np.dtype
    gamma_dtype: np.dtype


def forward_equations(x: NDArray, gamma: NDArray, beta: NDArray, eps: float) -> Forward:
    """Equations (1) to (5): x (..., D), gamma (D,), beta (D,)."""
    mean = x.mean(axis=-1, keepdims=True)  # (1)  (..., 1)
    var = ((x - mean) * (x - mean)).mean(axis=-1, keepdims=True)  # (2)  (..., 1)
    rstd = 1 / np.sqrt(var + eps)  # (3)  (..., 1)
    x_hat = (x - mean) * rstd  # (4)  (..., D)
    y = gamma * x_hat + beta  # (5)  (..., D)
    return Forward(mean, var, rstd, x_hat, y)


def backward_equations(dy: NDArray, x_hat: NDArray, rstd: NDArray, gamma: NDArray) -> Backward:
    """Equations (6) to (11): dy, x_hat (..., D), rstd (..., 1), gamma (D,)."""
    rows = tuple(range(dy.ndim - 1))
    g = gamma * dy  # (6)  (..., D)
    c1 = g.mean(axis=-1, keepdims=True)  # (7)  (..., 1)
    c2 = (g * x_hat).mean(axis=-1, keepdims=True)  # (8)  (..., 1)
    dx = rstd * (g - c1 - x_hat * c2)  # (9)  (..., D)
    dgamma = (dy * x_hat).sum(axis=rows)  # (10) (D,)
    dbeta = dy.sum(axis=rows)  # (11) (D,)
    return Backward(g, c1, c2, dx, dgamma, dbeta)


@checks.ieee
def forward(
    x: NDArray, gamma: NDArray, beta: NDArray, eps: float, out: NDArray | None = None
) -> tuple[NDArray, Saved]:
    """y (..., D) in x's dtype, and what the backward pass needs, in float64."""
    eps = checks.forward(x, gamma, beta, eps)
    y = checks.output("out", out, x.shape, x.dtype, (x, gamma, beta))
    found = forward_equations(_wide(x), _wide(gamma), _wide(beta), eps)
    y[...] = round_to(found.y, x.dtype)
    return y, Saved(found.x_hat, found.rstd, _wide(gamma), x.dtype, gamma.dtype)


@checks.ieee
def backward(
    dy: NDArray, saved: Saved, out: checks.Outputs | None = None
) -> tuple[NDArray, NDArray, NDArray]:
    """dx (..., D) in x's dtype, dgamma and dbeta (D,) in gamma's."""
    checks.saved_fields(saved, Saved)
    x_hat, rstd, gamma, dtype, gamma_dtype = saved
    checks.backward(dy, x_hat.shape, dtype)
    results = checks.gradients(out, x_hat.shape, dtype, gamma_dtype, (dy, x_hat, rstd, gamma))
    found = backward_equations(_wide(dy), x_hat, rstd, gamma)
    for result, values in zip(results, (found.dx, found.dgamma, found.dbeta), strict=True):
        result[...] = round_to(values, result.dtype)
    return results


def _wide(array: NDArray) -> NDArray[np.float64]:
    return np.asanyarray(array, np.float64, order="C")  # NumPy sums in pairs only along a contiguous axis


KERNEL = Kernel(
    name="reference",
    device="cpu",
    forward=forward,
    backward=backward,
    default_eps=1e-5,
    source="equations (1) to (11) of the paper, in float64",
)

"""The two published NumPy implementations, reimplemented with their saved items and order of operations.

Both are from llm_programming_tests (sleepy, commit 8e72eef09c, 2026-04-23): `compact` is qwen36/backwards,
`overcached` minimax-m2.7/backwards. Both take the variance in two passes. Formulas, the order of operations,
the saved items and the default eps are theirs. Added here: any leading dimensions (theirs are B, T), results
in `out`, the checks of the contract, and 16-bit storage, with sums in float32 and every saved tensor rounded
to x's dtype (per-row statistics stay in float32).
"""

from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.dtypes import sum_dtype
from layernorm_backward.kernels import Kernel, checks


class CompactSaved(NamedTuple):
    """x_hat (..., D) in x's dtype, rstd (..., 1) in the dtype of the sums, gamma (D,), and the integer D."""

    x_hat: NDArray
    rstd: NDArray
    gamma: NDArray
    D: int


class OvercachedSaved(NamedTuple):
    """Tensors (..., D) in x's dtype, statistics (..., 1) in that of the sums, gamma, beta (D,), and scalars.

    B, T, D are theirs for a three-dimensional x; else T is the last axis but one and B the product of those
    before.
    """

    x: NDArray
    x_centered: NDArray
    x_norm: NDArray
    mean: NDArray
    var: NDArray
    std: NDArray
    gamma: NDArray
    beta: NDArray
    eps: float
    B: int
    T: int
    D: int


@checks.ieee
def compact_forward(
    x: NDArray, gamma: NDArray, beta: NDArray, eps: float, out: NDArray | None = None
) -> tuple[NDArray, CompactSaved]:
    """y (..., D) in x's dtype; x itself is not saved."""
    eps = checks.forward(x, gamma, beta, eps)
    y = checks.output("out", out, x.shape, x.dtype, (x, gamma, beta))
    wide = _wide(x)
    mean = wide.mean(axis=-1, keepdims=True)  # (..., 1)
    x_centered = wide - mean  # (..., D)
    var = (x_centered * x_centered).mean(axis=-1, keepdims=True)  # (..., 1)
    rstd = 1 / np.sqrt(var + eps)  # (..., 1)
    x_hat = x_centered * rstd  # (..., D)
    np.add(_wide(gamma) * x_hat, _wide(beta), out=y, casting="unsafe")
    return y, CompactSaved(x_hat.astype(x.dtype, copy=False), rstd, gamma, x.shape[-1])


@checks.ieee
def compact_backward(
    dy: NDArray, saved: CompactSaved, out: checks.Outputs | None = None
) -> tuple[NDArray, NDArray, NDArray]:
    """dx = rstd * (g - mean(g) - x_hat * mean(g * x_hat)), g = gamma * dy."""
    checks.saved_fields(saved, CompactSaved)
    x_hat, rstd, gamma, _ = saved
    checks.backward(dy, x_hat.shape, x_hat.dtype)
    results = checks.gradients(out, x_hat.shape, x_hat.dtype, gamma.dtype, (dy, x_hat, rstd, gamma))
    dx, dgamma, dbeta = results
    rows = tuple(range(dy.ndim - 1))
    dy, x_hat = _wide(dy), _wide(x_hat)
    g = _wide(gamma) * dy  # (..., D)
    g_mean = g.mean(axis=-1, keepdims=True)  # (..., 1)
    gx_mean = (g * x_hat).mean(axis=-1, keepdims=True)  # (..., 1)
    np.multiply(rstd, g - g_mean - x_hat * gx_mean, out=dx, casting="unsafe")
    dgamma[...] = (dy * x_hat).sum(axis=rows)
    dbeta[...] = dy.sum(axis=rows)
    return results


@checks.ieee
def overcached_forward(
    x: NDArray, gamma: NDArray, beta: NDArray, eps: float, out: NDArray | None = None
) -> tuple[NDArray, OvercachedSaved]:
    """y (..., D) in x's dtype; keeps every intermediate."""
    eps = checks.forward(x, gamma, beta, eps)
    y = checks.output("out", out, x.shape, x.dtype, (x, gamma, beta))
    wide = _wide(x)
    mean = wide.mean(axis=-1, keepdims=True)  # (..., 1)
    x_centered = wide - mean  # (..., D)
    var = (x_centered * x_centered).mean(axis=-1, keepdims=True)  # (..., 1)
    std = np.sqrt(var + eps)  # (..., 1)
    x_norm = x_centered / std  # (..., D)
    np.add(_wide(gamma) * x_norm, _wide(beta), out=y, casting="unsafe")
    tensors = (x_centered.astype(x.dtype, copy=False), x_norm.astype(x.dtype, copy=False))
    *_, T, D = (1, *x.shape)
    return y, OvercachedSaved(x, *tensors, mean, var, std, gamma, beta, eps, prod(x.shape[:-2]), T, D)


@checks.ieee
def overcached_backward(
    dy: NDArray, saved: OvercachedSaved, out: checks.Outputs | None = None
) -> tuple[NDArray, NDArray, NDArray]:
    """dx = (dz - sum(dz)/D - x_norm * sum(dz * x_norm)/D) / std, dz = gamma * dy; the division comes last."""
    checks.saved_fields(saved, OvercachedSaved)
    x, x_norm, std, gamma, D = saved.x, saved.x_norm, saved.std, saved.gamma, saved.D
    checks.backward(dy, x.shape, x.dtype)
    results = checks.gradients(out, x.shape, x.dtype, gamma.dtype, (dy, *saved[:8]))
    dx, dgamma, dbeta = results
    rows = tuple(range(dy.ndim - 1))
    dy, x_norm = _wide(dy), _wide(x_norm)
    dgamma[...] = (dy * x_norm).sum(axis=rows)
    dbeta[...] = dy.sum(axis=rows)
    dz = dy * _wide(gamma)  # (..., D)
    sum_dz = dz.sum(axis=-1, keepdims=True)  # (..., 1)
    sum_dz_x = (dz * x_norm).sum(axis=-1, keepdims=True)  # (..., 1)
    np.divide(dz - sum_dz / D - x_norm * sum_dz_x / D, std, out=dx, casting="unsafe")
    return results


def _wide(array: NDArray) -> NDArray:
    return array.astype(sum_dtype(array.dtype), copy=False)


_SOURCE = "llm_programming_tests (sleepy, commit 8e72eef09c, 2026-04-23), "

COMPACT = Kernel(
    name="compact",
    device="cpu",
    forward=compact_forward,
    backward=compact_backward,
    default_eps=1e-5,
    source=_SOURCE + "qwen36/backwards",
)
OVERCACHED = Kernel(
    name="overcached",
    device="cpu",
    forward=overcached_forward,
    backward=overcached_backward,
    default_eps=1e-8,
    source=_SOURCE + "minimax-m2.7/backwards",
)

"""The kernel from which mutants are made: the paper's equations, re-centred; each mutant changes one part."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.dtypes import sum_dtype
from layernorm_backward.kernels import Kernel, checks

Gradients = tuple[NDArray, NDArray, NDArray]


class Saved(NamedTuple):
    """What a mutant may misuse: x, z = x - mean, x_hat (..., D), mean, var, rstd (..., 1), gamma (D,).

    All in the dtype of the sums; `dtype` and `gamma_dtype` are those of the results.
    """

    x: NDArray
    mean: NDArray
    z: NDArray
    var: NDArray
    rstd: NDArray
    x_hat: NDArray
    gamma: NDArray
    eps: float
    dtype: np.dtype
    gamma_dtype: np.dtype


Backward = Callable[[NDArray, Saved], Gradients]


def mean(values: NDArray) -> NDArray:
    """The mean over the last axis, (..., 1)."""
    return values.mean(axis=-1, keepdims=True)


def over_rows(terms: NDArray) -> NDArray:
    """The sum over all leading axes, (D,)."""
    return terms.sum(axis=tuple(range(terms.ndim - 1)))


def gradients(
    dy: NDArray,
    s: Saved,
    *,
    g: NDArray | None = None,
    c1: Any = 1.0,
    c2: Any = 1.0,
    rstd: NDArray | None = None,
    x_hat: NDArray | None = None,
    outer: Any = 1.0,
) -> Gradients:
    """Equations (6) to (11); c1, c2 are factors of the two means, `outer` one of all of dx."""
    g = s.gamma * dy if g is None else g  # (..., D)
    rstd = s.rstd if rstd is None else rstd  # (..., 1)
    x_hat = s.x_hat if x_hat is None else x_hat  # (..., D)
    dx = outer * rstd * (g - c1 * mean(g) - c2 * x_hat * mean(g * x_hat))  # (..., D)
    return dx, over_rows(dy * x_hat), over_rows(dy)


def forward(
    x: NDArray, gamma: NDArray, beta: NDArray, eps: float, out: NDArray | None = None
) -> tuple[NDArray, Saved]:
    """y (..., D) in x's dtype by equations (1) to (5) and (13); no mutant changes this pass."""
    eps = checks.forward(x, gamma, beta, eps)
    y = checks.output("out", out, x.shape, x.dtype, (x, gamma, beta))
    wide, slope, shift = (np.asarray(part, sum_dtype(x.dtype), order="C") for part in (x, gamma, beta))
    with np.errstate(over="ignore", invalid="ignore"):
        first = mean(wide)
        z = wide - first
        z -= mean(z)
        var = mean(z * z)
        rstd = 1 / np.sqrt(var + eps)
        x_hat = z * rstd
        y[...] = (slope * x_hat + shift).astype(y.dtype)
    return y, Saved(wide, first, z, var, rstd, x_hat, slope, eps, x.dtype, gamma.dtype)


def kernel(name: str, backward: Backward) -> Kernel:
    """A kernel with the backward pass `backward(dy, saved)`, whose results are rounded once."""

    def rounded(dy: NDArray, saved: Saved, out: Gradients | None = None) -> Gradients:
        checks.backward(dy, saved.x.shape, saved.dtype)
        wide = np.asarray(dy, saved.x.dtype, order="C")
        results = checks.gradients(out, saved.x.shape, saved.dtype, saved.gamma_dtype, (dy, *saved[:7]))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for result, values in zip(results, backward(wide, saved), strict=True):
                result[...] = np.asarray(values).astype(result.dtype)
        return results

    return Kernel(
        name, "cpu", forward, rounded, 1e-5, "equations (1) to (11) and (13) with an injected fault"
    )

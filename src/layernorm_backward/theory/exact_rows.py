"""The exact quantities of a problem from which bounds and first-order theory are evaluated, in float64.

They come from double-double moments, so they are accurate to float64 at any kappa.
"""

from typing import NamedTuple

import numpy as np

from layernorm_backward import oracle
from layernorm_backward.double_double import Floats


class ExactRows(NamedTuple):
    """gamma, beta (D,); dy, x_hat, g, dx (rows, D); r, share = var/(var + eps), c1, c2 (rows, 1)."""

    gamma: Floats
    beta: Floats
    dy: Floats
    x_hat: Floats
    g: Floats
    dx: Floats
    r: Floats
    share: Floats
    c1: Floats
    c2: Floats


def exact_rows(moments: oracle.Moments, gamma: Floats, beta: Floats, dy: Floats, eps: float) -> ExactRows:
    """The quantities for rows of x with these moments, dy (rows, D), gamma, beta (D,)."""
    variance = moments.variance.hi[:, None]
    r = 1 / np.sqrt(variance + eps)
    x_hat, g = moments.centred.hi * r, gamma * dy
    c1, c2 = mean(g), mean(g * x_hat)
    dx = r * (g - c1 - x_hat * c2)
    return ExactRows(gamma, beta, dy, x_hat, g, dx, r, variance / (variance + eps), c1, c2)


def kappa(moments: oracle.Moments) -> Floats:
    """sqrt(1 + mean^2/var) of each row, shape (rows,); infinite for a constant row."""
    variance = moments.variance.hi
    with np.errstate(divide="ignore", invalid="ignore"):
        offset = moments.mean.hi / np.sqrt(variance)
    return np.where(variance == 0, np.inf, np.hypot(1.0, offset))


def mean(terms: Floats) -> Floats:
    """The mean over the last axis, which is kept."""
    return np.mean(terms, axis=-1, keepdims=True)


def rms(terms: Floats) -> Floats:
    """The root mean square over the last axis, which is kept."""
    return np.sqrt(np.mean(terms * terms, axis=-1, keepdims=True))

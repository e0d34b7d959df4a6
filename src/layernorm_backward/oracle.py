"""The exact results of layer normalization for the given float64 inputs, to about 30 digits.

The first element of each row is subtracted from it first. This is exact in double-double, and leaves no large
offset to cancel in mean and variance: results are as accurate at an offset of 1e14 as at 0, and the variance
of a constant row is exactly 0. The tests certify them against Arb and against rational arithmetic.
A row that holds NaN or infinity gives NaN in that row, and in dgamma.
"""

from typing import NamedTuple

import numpy as np

from layernorm_backward.double_double import DoubleDouble, Floats, difference, exactly, product


class Moments(NamedTuple):
    """Mean and variance of each row (...,), and the centred rows x - mean (..., D)."""

    mean: DoubleDouble
    variance: DoubleDouble
    centred: DoubleDouble


class Normalized(NamedTuple):
    """x_hat (..., D) and rstd (...,) = 1/sqrt(variance + eps)."""

    x_hat: DoubleDouble
    rstd: DoubleDouble


class Gradients(NamedTuple):
    """dx (..., D), dgamma (D,), dbeta (D,)."""

    dx: DoubleDouble
    dgamma: DoubleDouble
    dbeta: DoubleDouble


class Results(NamedTuple):
    """y, dx (..., D) and dgamma, dbeta (D,)."""

    y: DoubleDouble
    dx: DoubleDouble
    dgamma: DoubleDouble
    dbeta: DoubleDouble


def moments(x: Floats) -> Moments:
    """Mean and variance (division by D) over the last axis of x (..., D)."""
    with np.errstate(invalid="ignore", over="ignore"):
        first = x[..., :1]
        shifted = difference(x, first)
        shifted_mean = shifted.mean(keepdims=True)
        centred = shifted - shifted_mean
        return Moments(shifted_mean.at((..., 0)) + x[..., 0], (centred * centred).mean(), centred)


def normalize(x: Floats, eps: float) -> Normalized:
    """x_hat and rstd of x (..., D); eps is the real number that the float64 `eps` holds."""
    with np.errstate(invalid="ignore", divide="ignore"):
        _, variance, centred = moments(x)
        rstd = 1.0 / (variance + eps).sqrt()
        return Normalized(centred * rstd.at((..., None)), rstd)


def forward(x: Floats, gamma: Floats, beta: Floats, eps: float) -> DoubleDouble:
    """y = gamma*x_hat + beta, shape (..., D)."""
    return normalize(x, eps).x_hat * gamma + beta


def backward(x: Floats, gamma: Floats, dy: Floats, eps: float) -> Gradients:
    """dx = rstd*(g - mean(g) - x_hat*mean(g*x_hat)) with g = gamma*dy; dgamma, dbeta summed over rows."""
    return _backward(normalize(x, eps), gamma, dy)


def results(x: Floats, gamma: Floats, beta: Floats, dy: Floats, eps: float) -> Results:
    """Results of both passes, from one normalization."""
    normalized = normalize(x, eps)
    return Results(normalized.x_hat * gamma + beta, *_backward(normalized, gamma, dy))


def _backward(normalized: Normalized, gamma: Floats, dy: Floats) -> Gradients:
    x_hat, rstd = normalized
    with np.errstate(invalid="ignore"):
        g = product(np.broadcast_to(gamma, dy.shape), dy)
        along = (g * x_hat).mean(keepdims=True)
        dx = (g - g.mean(keepdims=True) - x_hat * along) * rstd.at((..., None))
        return Gradients(dx, _over_rows(x_hat * dy), _over_rows(exactly(dy)))


def _over_rows(terms: DoubleDouble) -> DoubleDouble:
    hidden = terms.hi.shape[-1]
    return DoubleDouble(*(part.reshape(-1, hidden) for part in terms)).sum(axis=0)

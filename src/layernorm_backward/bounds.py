"""First-order bounds of a kernel's error in y, dx, dgamma and dbeta, evaluated from exact quantities.

With r = rstd, c1 = mean(g), c2 = mean(g*x_hat), eta = r*(error of the mean), rho = relative error of r:

    delta x_hat = rho*x_hat - eta
    delta dx    = rho*dx + r*(-2*rho*c2*x_hat + eta*(c2 + c1*x_hat)) + local rounding

and the bound takes each term's 2-norm. A sum of depth s adds s*u of the sum of its terms' magnitudes. The
mean is off by at most t = (s + 2)*u*kappa standard deviations; re-centred, by (s + 2)*u*sqrt(1 + t^2). The
variance is off by (s + 4)*u + t^2, or by (s + 6)*u + 2*(s + 2)*u*t. eps is rounded as the sums are.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from layernorm_backward import oracle
from layernorm_backward.double_double import Floats


@dataclass(frozen=True)
class Rounding:
    """How a kernel rounds: u of its sums and of its results, the depth of its sums over D and over rows."""

    sum_u: float
    result_u: float
    depth: int
    row_depth: int
    recentred: bool
    rounds_x_hat: bool


class Bounds(NamedTuple):
    """2-norm of the error over that of the exact result: y, dx a row each (rows,), dgamma, dbeta a number."""

    y: Floats
    dx: Floats
    dgamma: Floats
    dbeta: Floats


class _Row(NamedTuple):
    """Exact quantities rounded to float64: x_hat, g (rows, D) and per row eta, rho, r, c1, c2 (rows, 1)."""

    x_hat: Floats
    g: Floats
    eta: Floats
    rho: Floats
    r: Floats
    c1: Floats
    c2: Floats


def bounds(
    moments: oracle.Moments, gamma: Floats, beta: Floats, dy: Floats, eps: float, rounding: Rounding
) -> Bounds:
    """Bounds for the moments of x, dy (rows, D), gamma, beta (D,), all finite and no row of x constant."""
    row = _row(moments, gamma, dy, eps, rounding)
    return Bounds(
        _y(row, gamma, beta, rounding),
        _dx(row, rounding),
        _dgamma(row, dy, rounding),
        _dbeta(dy, rounding),
    )


def _row(exact: oracle.Moments, gamma: Floats, dy: Floats, eps: float, rounding: Rounding) -> _Row:
    variance = exact.variance.hi[:, None]
    r = 1 / np.sqrt(variance + eps)
    x_hat, g = exact.centred.hi * r, gamma * dy
    share = variance / (variance + eps)
    kappa = np.hypot(1.0, exact.mean.hi[:, None] / np.sqrt(variance))
    drift, variance_error = _statistics(kappa, rounding)
    return _Row(
        x_hat=x_hat,
        g=g,
        eta=drift * np.sqrt(share),
        rho=variance_error * share / 2 + 3 * rounding.sum_u,
        r=r,
        c1=np.mean(g, axis=-1, keepdims=True),
        c2=np.mean(g * x_hat, axis=-1, keepdims=True),
    )


def _statistics(kappa: Floats, rounding: Rounding) -> tuple[Floats, Floats]:
    """Error of the mean in standard deviations, relative error of the variance."""
    s, u = rounding.depth, rounding.sum_u
    t = (s + 2) * u * kappa
    if rounding.recentred:
        return (s + 2) * u * np.hypot(1.0, t), (s + 6) * u * (1 + t**2) + 2 * (s + 2) * u * t * np.hypot(
            1.0, t
        )
    return t, (s + 4) * u * (1 + t**2) + t**2


def _y(row: _Row, gamma: Floats, beta: Floats, rounding: Rounding) -> Floats:
    scaled, u = gamma * row.x_hat, rounding.sum_u
    size = _rms(scaled + beta)
    error = (row.rho + 5 * u) * _rms(scaled) + row.eta * _rms(gamma) + u * size
    return (error / size)[:, 0] + _result(rounding)


def _dx(row: _Row, rounding: Rounding) -> Floats:
    u, s = rounding.sum_u, rounding.depth
    _, g, eta, rho, r, c1, c2 = row
    size = _rms(r * (g - c1 - row.x_hat * c2))
    mean_g, mean_gx = (np.mean(np.abs(term), axis=-1, keepdims=True) for term in (g, g * row.x_hat))
    local = u * ((s + 2) * (mean_g + mean_gx) + 4 * (_rms(g) + np.abs(c1) + 2 * np.abs(c2)))
    stored = rounding.result_u * (np.abs(c2) + mean_gx) if rounding.rounds_x_hat else 0.0
    shifted = eta * (np.abs(c2) + np.abs(c1))
    error = rho * (size + 2 * r * np.abs(c2)) + r * (shifted + local + stored)
    return (error / size)[:, 0] + _result(rounding)


def _dgamma(row: _Row, dy: Floats, rounding: Rounding) -> Floats:
    magnitude = np.abs(dy * row.x_hat)
    local = (rounding.row_depth + 5) * rounding.sum_u
    local += rounding.result_u if rounding.rounds_x_hat else 0.0
    error = np.sum((row.rho + local) * magnitude + row.eta * np.abs(dy), axis=0)
    return np.linalg.norm(error) / np.linalg.norm(np.sum(dy * row.x_hat, axis=0)) + _result(rounding)


def _dbeta(dy: Floats, rounding: Rounding) -> Floats:
    error = rounding.row_depth * rounding.sum_u * np.sum(np.abs(dy), axis=0)
    return np.linalg.norm(error) / np.linalg.norm(np.sum(dy, axis=0)) + _result(rounding)


def _result(rounding: Rounding) -> float:
    """The rounding of the result itself, where sums are kept in a wider dtype."""
    return rounding.result_u if rounding.result_u > rounding.sum_u else 0.0


def _rms(terms: Floats) -> Floats:
    return np.sqrt(np.mean(terms * terms, axis=-1, keepdims=True))

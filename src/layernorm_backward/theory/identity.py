"""How errors of mean and rstd propagate to y, dx and dgamma: to first order, and exactly.

eta = r*(mean used - exact mean) and rho, the relative error of rstd, are two numbers per row. With
c1 = mean(g), c2 = mean(g*x_hat) and q = (1 + rho)^2

    delta x_hat = rho*x_hat - (1 + rho)*eta
    delta dx = rho*dx + r*(1 + rho)*((1 - q)*c2*x_hat + q*eta*(c2 - eta*c1 + c1*x_hat))

To first order these are rho*x_hat - eta and rho*dx + r*(-2*rho*c2*x_hat + eta*(c2 + c1*x_hat)). dbeta
depends on neither. The remaining error of a computed result is local rounding.
"""

from typing import NamedTuple

import numpy as np

from layernorm_backward import oracle
from layernorm_backward.double_double import Floats
from layernorm_backward.passes import Pass
from layernorm_backward.problem import Results
from layernorm_backward.theory.exact_rows import ExactRows


class Deviation(NamedTuple):
    """eta and rho of each row, shape (rows, 1)."""

    eta: Floats
    rho: Floats


def deviation(found: Pass, moments: oracle.Moments, eps: float) -> Deviation:
    """eta and rho of a pass over rows (rows, D) with these exact moments, in double-double until the end."""
    mean, shift, rstd = (np.asarray(part).astype(np.float64) for part in found[1:])
    root = (moments.variance + eps).sqrt()
    with np.errstate(invalid="ignore", over="ignore"):
        eta = (moments.mean - mean - shift) / root
        return Deviation(-eta.hi[:, None], (root * rstd - 1.0).hi[:, None])


def first_order(exact: ExactRows, off: Deviation) -> Results:
    """Errors of y, dx (rows, D), dgamma and dbeta (D,) to first order in eta and rho, in float64."""
    eta, rho = off
    return _errors(exact, rho, -eta, eta * exact.c2, eta * exact.c1 - 2 * rho * exact.c2)


def propagated(exact: ExactRows, off: Deviation) -> Results:
    """As `first_order`, but exact in eta and rho."""
    eta, rho = off
    with np.errstate(invalid="ignore", over="ignore"):
        left = 1 + rho
        cubed = left * left * left * eta
        along = cubed * exact.c1 + left * (1 - left**2) * exact.c2
        return _errors(exact, rho, -left * eta, cubed * (exact.c2 - eta * exact.c1), along)


def _errors(exact: ExactRows, rho: Floats, shift: Floats, constant: Floats, along: Floats) -> Results:
    """delta x_hat = rho*x_hat + shift, delta dx = rho*dx + r*(constant + along*x_hat)."""
    with np.errstate(invalid="ignore", over="ignore"):
        moved = rho * exact.x_hat + shift
        dx = rho * exact.dx + exact.r * (constant + along * exact.x_hat)
        dgamma = np.sum(exact.dy * moved, axis=0)
        return Results(exact.gamma * moved, dx, dgamma, np.zeros_like(dgamma))

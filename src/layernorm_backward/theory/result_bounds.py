"""Bounds of the error in y, dx, dgamma and dbeta, evaluated from exact quantities.

With r = rstd, c1 = mean(g), c2 = mean(g*x_hat), eta = r*(error of the mean), rho = relative error of r and
q = (1 + rho)^2, the effect of an error in the mean and in r is known exactly (to first order: `identity`):

    x_hat' = (1 + rho)*(x_hat - eta)        c2' = (1 + rho)*(c2 - eta*c1)
    dx' - dx = rho*dx + r*(1 + rho)*((1 - q)*c2*x_hat + q*eta*(c2 - eta*c1 + c1*x_hat))

The bound adds the 2-norms of the terms, with the largest eta and rho possible for the algorithm
(`mean_bounds`). All other roundings are local and of first order: a sum of depth s adds s*u times the sum of
its terms' magnitudes. eps is rounded as the sums are. A bound is infinite where none exists: where the
relative error of the variance may reach 1/share, share = var/(var + eps), or a sum may overflow. Underflow is
not covered.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from layernorm_backward.double_double import Floats
from layernorm_backward.theory.exact_rows import ExactRows, mean, rms
from layernorm_backward.theory.mean_bounds import Statistics


@dataclass(frozen=True)
class Rounding:
    """How a kernel rounds: u of its sums and of its results, the depth of its sums over D and over rows."""

    sum_u: float
    result_u: float
    depth: int
    row_depth: int
    rounds_x_hat: bool = False
    largest: float = np.inf


class Bounds(NamedTuple):
    """2-norm of the error over that of the exact result: y, dx per row (rows,); dgamma, dbeta one number."""

    y: Floats
    dx: Floats
    dgamma: Floats
    dbeta: Floats


class _Row(NamedTuple):
    """The largest eta, rho, and stray of y and of the others, (rows, 1); k, the roundings of x_hat."""

    eta: Floats
    rho: Floats
    stray_y: Floats
    stray: Floats
    k: int


class Sizes(NamedTuple):
    """Sizes of exact rows that all bounds of a problem share: rms, and mean magnitudes (mean_), (rows, 1)."""

    y: Floats
    scaled: Floats
    gamma: Floats
    dx: Floats
    g: Floats
    mean_g: Floats
    mean_gx: Floats


def sizes(exact: ExactRows) -> Sizes:
    """The sizes that all bounds of a problem share."""
    scaled, gx = exact.gamma * exact.x_hat, np.abs(exact.g * exact.x_hat)
    return Sizes(
        y=rms(scaled + exact.beta),
        scaled=rms(scaled),
        gamma=rms(exact.gamma),
        dx=rms(exact.dx),
        g=rms(exact.g),
        mean_g=mean(np.abs(exact.g)),
        mean_gx=mean(gx),
    )


def within(exact: ExactRows, size: Sizes, statistics: Statistics, rounding: Rounding) -> Bounds:
    """The bounds for given errors of the statistics and a given rounding."""
    with np.errstate(over="ignore", invalid="ignore"):
        row = _row(exact, size, statistics, rounding)
        return Bounds(
            _y(row, size, rounding),
            _dx(row, exact, size, rounding),
            _dgamma(row, exact, rounding),
            _dbeta(exact.dy, rounding),
        )


def _row(exact: ExactRows, size: Sizes, found: Statistics, rounding: Rounding) -> _Row:
    hidden = exact.g.shape[-1]
    magnitude = np.maximum(found.magnitude[:, None], hidden * np.maximum(size.mean_g, size.mean_gx))
    rho = _rho(found.variance[:, None] * exact.share, rounding.sum_u)
    root = np.sqrt(exact.share)
    forward = found.stray if found.stray_forward is None else found.stray_forward
    return _Row(
        eta=found.drift[:, None] * root,
        rho=np.where(magnitude < rounding.largest / 2, rho, np.inf),
        stray_y=forward[:, None] * root,
        stray=found.stray[:, None] * root,
        k=found.roundings,
    )


def _rho(relative: Floats, u: float) -> Floats:
    """The relative error of rstd from that of var + eps; sum, root, quotient and eps add three roundings."""
    left = np.where(relative < 1, 1 - relative, np.nan)
    return np.where(relative < 1, (1 + 3 * u) / np.sqrt(left) - 1, np.inf)


def _y(row: _Row, size: Sizes, rounding: Rounding) -> Floats:
    u = rounding.sum_u
    error = (
        (row.rho + (row.k + 1) * u) * size.scaled + _shifted(row, row.stray_y, u) * size.gamma + u * size.y
    )
    return _known(error / size.y)[:, 0] + _result(rounding)


def _dx(row: _Row, exact: ExactRows, size: Sizes, rounding: Rounding) -> Floats:
    eta, rho, _, e, k = row
    u, s, c1, c2 = rounding.sum_u, rounding.depth, np.abs(exact.c1), np.abs(exact.c2)
    q = (1 + rho) ** 2
    moved = (q - 1) * c2 + q * eta * np.hypot(c2 + eta * c1, c1)
    local = (s + 2 + e) * size.mean_g + (s + 3 + k) * size.mean_gx + 4 * size.g + (k + 2 + e) * c2
    stored = rounding.result_u * (c2 + size.mean_gx) if rounding.rounds_x_hat else 0.0
    error = rho * size.dx + exact.r * ((1 + rho) * moved + u * local + stored)
    return _known(error / size.dx)[:, 0] + _result(rounding)


def _dgamma(row: _Row, exact: ExactRows, rounding: Rounding) -> Floats:
    terms, u = exact.dy * exact.x_hat, rounding.sum_u
    local = (rounding.row_depth + row.k + 1) * u + (rounding.result_u if rounding.rounds_x_hat else 0.0)
    error = np.sum((row.rho + local) * np.abs(terms) + _shifted(row, row.stray, u) * np.abs(exact.dy), axis=0)
    return _known(_norm(error) / _norm(np.sum(terms, axis=0))) + _result(rounding)


def _dbeta(dy: Floats, rounding: Rounding) -> Floats:
    error = rounding.row_depth * rounding.sum_u * np.sum(np.abs(dy), axis=0)
    return _norm(error) / _norm(np.sum(dy, axis=0)) + _result(rounding)


def _shifted(row: _Row, stray: Floats, u: float) -> Floats:
    """The shift of each element of x_hat."""
    return (1 + row.rho) * row.eta + u * stray


def _result(rounding: Rounding) -> float:
    """The rounding of the result itself, where sums are kept in a wider dtype."""
    return rounding.result_u if rounding.result_u > rounding.sum_u else 0.0


def _known(bound: Floats) -> Floats:
    """The bound, infinite where it is NaN (from infinity times zero)."""
    return np.where(np.isnan(bound), np.inf, bound)


def _norm(vector: Floats) -> Floats:
    return np.sqrt(np.sum(vector * vector))

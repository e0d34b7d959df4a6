"""A problem prepared for tolerance rules: its exact gradients, and the sizes that errors are relative to."""

from typing import NamedTuple

import numpy as np

from layernorm_backward import oracle
from layernorm_backward.derivations.gradients import Gradients
from layernorm_backward.double_double import Floats
from layernorm_backward.inputs import values
from layernorm_backward.kernels import published
from layernorm_backward.problem import Problem, run_kernel

PLAIN = published.COMPACT  # the kernel whose errors a relative rule multiplies
Errors = Gradients  # magnitudes of the error of each element: dx (rows, D), dgamma, dbeta (D,)


class Setting(NamedTuple):
    """A problem of rows (rows, D), its exact moments and gradients, and the errors of a plain kernel."""

    problem: Problem
    eps: float
    moments: oracle.Moments
    exact: oracle.Gradients
    plain: Errors


def setting(problem: Problem, eps: float) -> Setting:
    """The setting of a problem; x, dy (rows, D), no row of x constant."""
    x, gamma, _, dy = problem.values()
    exact = oracle.backward(x, gamma, dy, eps)
    plain = run_kernel(PLAIN, problem, eps)
    return Setting(problem, eps, oracle.moments(x), exact, errors(Gradients(*plain[1:]), exact))


def errors(computed: Gradients, exact: oracle.Gradients) -> Errors:
    """|computed - exact|, float64; infinite where the computed gradient is NaN."""
    with np.errstate(invalid="ignore"):
        off = (
            np.abs((values(found) - truth.hi) - truth.lo)
            for found, truth in zip(computed, exact, strict=True)
        )
        return Errors(*(np.where(np.isnan(part), np.inf, part) for part in off))


def sizes(at: Setting, strict: bool) -> tuple[Gradients, Gradients]:
    """The sizes that errors of order u, and of u_s, are relative to: dx (rows,), dgamma, dbeta numbers."""
    x_hat, g, dy, r, kappa = _quantities(at)
    kappa = np.ones_like(kappa) if strict else kappa
    row, (_, dgamma, dbeta) = r[:, 0] * norm(g), at.exact
    terms = norm((kappa * np.abs(dy) * (1 + np.abs(x_hat))).sum(axis=0))
    rounded = np.hypot(norm(dgamma.hi), norm(norm(dy * x_hat)))
    stored = Gradients(row, rounded, norm(dbeta.hi))
    return stored, Gradients(kappa[:, 0] * row, terms, norm(np.abs(dy).sum(axis=0)))


def _quantities(at: Setting) -> tuple[Floats, ...]:
    """x_hat, g, dy (rows, D), r and kappa (rows, 1)."""
    _, gamma, _, dy = at.problem.values()
    r = 1 / np.sqrt(at.moments.variance.hi[:, None] + at.eps)
    return at.moments.centred.hi * r, gamma * dy, dy, r, np.hypot(1.0, at.moments.mean.hi[:, None] * r)


def norm(rows: Floats) -> Floats:
    """2-norms along the last axis; without BLAS, whose sums depend on the machine."""
    return np.sqrt(np.sum(rows * rows, axis=-1))

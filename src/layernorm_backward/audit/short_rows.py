"""Rows of fewer than 16 elements, whose results can cancel: errors are compared with the size of the terms.

The projection takes all of g away where D = 2, but for eps, and in any short row it can take nearly all.
"""

import numpy as np

from layernorm_backward import inputs, oracle
from layernorm_backward.audit.setting import LEAST_HIDDEN
from layernorm_backward.double_double import Floats
from layernorm_backward.dtypes import unit_roundoff
from layernorm_backward.edge_cases import Outcome, Trial
from layernorm_backward.errors import error, most_over_bounds, norm
from layernorm_backward.problem import Problem, run_kernel

SHORT = 2, 3, 4, 5, 7, 8, 9, LEAST_HIDDEN - 1  # around powers of two, where vectors and warps have their ends


def alternating(deviates: Floats, u: float) -> Floats:
    """Elements of either sign in turn, so that in no row the mean is large beside the spread."""
    signs = np.where(np.arange(deviates.shape[-1]) % 2, -1.0, 1.0)
    return signs * (1 + np.abs(deviates))


def against_terms(trial: Trial) -> Outcome:
    """The largest error over the norm of the terms, of a row of y, dx, of dgamma and dbeta, in u."""
    sizes = _sizes(trial.problem, trial.eps)  # before a kernel may write to the arrays
    computed = run_kernel(trial.kernel, trial.problem, trial.eps)
    errors = (
        most_over_bounds(norm(error(found, right)), size) / unit_roundoff(found.dtype)
        for found, right, size in zip(computed, trial.exact, sizes, strict=True)
    )
    worst = max(errors)
    return Outcome(worst <= trial.limit_u, worst, f"all results within {trial.limit_u:g} u of their terms")


def _sizes(problem: Problem, eps: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Norms of |gamma*x_hat| + |beta|, rstd*g (rows,) and of sum |dy*x_hat|, sum |dy| ()."""
    _, gamma, beta, dy = (np.abs(part) for part in problem.values())
    x_hat, rstd = (np.abs(part.hi) for part in oracle.normalize(inputs.values(problem.x), eps))
    rows = gamma * x_hat + beta, rstd[..., None] * gamma * dy
    sums = (terms.sum(axis=0) for terms in (dy * x_hat, dy))
    return *map(norm, rows), *map(norm, sums)

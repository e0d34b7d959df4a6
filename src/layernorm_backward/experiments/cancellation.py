"""What is left of dx where the upstream gradient lies nearly along 1 and x_hat, which dx projects away.

dy = 1 + x_hat + spread*N(0,1), gamma = 1, rows N(0,1): dx keeps a share 1/kappa_g of g, with
kappa_g = r*rms(g)/rms(dx). error_u is relative to dx, in units of u, median and maximum over the rows;
absolute_error_u_max is the same error relative to r*g, which does not shrink.
"""

from typing import Any

import numpy as np
import pandas as pd

from layernorm_backward import inputs, oracle
from layernorm_backward.dtypes import DtypeName, dtype_of
from layernorm_backward.errors import error_u
from layernorm_backward.experiments._arguments import Count, Eps, Positive, RunnableKernels, Seed, Several
from layernorm_backward.experiments._results import results
from layernorm_backward.experiments._rows import kappas_g
from layernorm_backward.kernels import KERNELS, Kernel
from layernorm_backward.problem import Problem, draw_aligned
from layernorm_backward.records.tabulate import table


def run(
    *,
    kernels: RunnableKernels,
    dtypes: Several[DtypeName],
    spreads: Several[Positive],
    hidden: Count,
    rows: Count,
    eps: Eps,
    seed: Seed,
) -> pd.DataFrame:
    """One row per kernel, dtype and spread."""
    chosen = [KERNELS[name] for name in kernels]
    records: list[dict[str, Any]] = []
    for dtype in dtypes:
        for spread in spreads:
            rng = inputs.generator(seed, hidden)
            problem = draw_aligned(rng, inputs.rows(rng, rows, hidden, dtype_of(dtype)), spread)
            cell = {"dtype": dtype, "spread": spread, "hidden": hidden}
            records += [cell | _measure(kernel, problem, eps) for kernel in chosen]
    return table(records, "cancellation")


def _measure(kernel: Kernel, problem: Problem, eps: float) -> dict[str, Any]:
    computed = results(kernel, problem, eps)
    if isinstance(computed, str):
        return {"kernel": kernel.name, "reason": computed}
    x, gamma, _, dy = problem.values()
    exact = oracle.backward(x, gamma, dy, eps).dx
    kappa_g = kappas_g(gamma * dy, 1 / oracle.normalize(x, eps).rstd.hi, exact.hi)
    error = error_u(computed.dx, exact)
    return {
        "kernel": kernel.name,
        "kappa_g": float(np.median(kappa_g)),
        "error_u_median": float(np.median(error)),
        "error_u_max": float(np.max(error)),
        "absolute_error_u_max": float(np.max(error / kappa_g)),
    }

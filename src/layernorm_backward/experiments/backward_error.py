"""Error of y, dx, dgamma, dbeta of every kernel against the exact result, as mean/std (kappa) grows.

Rows are Gaussian, of unit variance and mean sqrt(kappa^2 - 1), rounded to the dtype; gamma is N(1, 1/4). The
oracle sees the rounded data. error_u: norm-wise error of a row in units of u of the dtype, median and maximum
over the rows (dgamma, dbeta: the one vector). kappa_g, the median of r*rms(g)/rms(dx), says how much of g is
projected away. bound_u is the bound of `kernel_bounds` in the same units, maximum over the rows, infinite
where a row has none. A cell whose rows do not have the kappa of its key once they are rounded (constant,
overflowed, or off by more than a factor 1.25) is not measured, and says why.
"""

from functools import partial
from typing import Any

import pandas as pd
from tqdm import tqdm

from layernorm_backward import inputs
from layernorm_backward.dtypes import DtypeName
from layernorm_backward.experiments._arguments import (
    Count,
    Distinct,
    Eps,
    Kappa,
    RunnableKernels,
    Seed,
    Several,
)
from layernorm_backward.experiments._error_cells import Runner, cells, measure
from layernorm_backward.experiments._results import results
from layernorm_backward.kernels import KERNELS
from layernorm_backward.records.tabulate import table


def run(
    *,
    kernels: RunnableKernels,
    dtypes: Several[DtypeName],
    kappas: Several[Kappa],
    hidden: Count,
    hidden_sweep: Distinct[Count],
    hidden_kappas: Distinct[Kappa],
    upstreams: Several[inputs.UpstreamKind],
    rows: Count,
    eps: Eps,
    seed: Seed,
) -> pd.DataFrame:
    """One row per kernel, dtype, kappa, upstream, D and quantity: kappa at one D, then D at few kappas."""
    wanted = cells(dtypes, kappas, hidden, hidden_sweep, hidden_kappas, upstreams)
    runners = [Runner(name, partial(results, KERNELS[name])) for name in kernels]
    records: list[dict[str, Any]] = []
    for cell in tqdm(wanted, desc="backward_error", mininterval=1):
        records += measure(runners, cell, rows, eps, seed)
    return table(records, "backward_error")

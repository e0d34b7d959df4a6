"""The audit of every kernel: gradient check, growth of errors with mean/std, eps, long sums, edge cases."""

import pandas as pd

from layernorm_backward.audit import Setting
from layernorm_backward.dtypes import DtypeName
from layernorm_backward.experiments._arguments import Count, Eps, Names, Positive, Seed, Several, Shape
from layernorm_backward.experiments._audit import Hidden, audited
from layernorm_backward.kernels import KERNELS


def run(
    *,
    kernels: Names,
    dtypes: Several[DtypeName],
    rows: Count,
    hidden: Hidden,
    per_decade: Count,
    sum_rows: Count,
    check_shape: Shape,
    eps: Eps,
    limit_u: Positive,
    slope_limit: Positive,
    edge_limit_u: Positive,
    seed: Seed,
) -> pd.DataFrame:
    """One row per kernel, dtype and property; errors in u of the dtype."""
    setting = Setting(
        rows, hidden, per_decade, sum_rows, check_shape, eps, limit_u, slope_limit, edge_limit_u, seed
    )
    return audited("audit", KERNELS, kernels, dtypes, setting)

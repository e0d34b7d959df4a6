"""The same audit of layer norms of other packages, where they are installed (`make peers`)."""

from typing import Annotated

import pandas as pd

from layernorm_backward.audit import Setting
from layernorm_backward.audit.cases import CASES
from layernorm_backward.dtypes import DtypeName
from layernorm_backward.experiments._arguments import (
    Count,
    Distinct,
    Eps,
    Names,
    Positive,
    Seed,
    Several,
    Shape,
    each_of,
)
from layernorm_backward.experiments._audit import Hidden, audited
from layernorm_backward.kernels.peers import PEERS

REQUIRES = ("torch", "jax", "flax")  # import names; without them the rows say so


def run(
    *,
    peers: Annotated[Names, each_of(PEERS)],
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
    without: Annotated[Distinct[str], each_of(CASES)],
    seed: Seed,
) -> pd.DataFrame:
    """One row per peer, dtype and property; errors in u of the dtype.

    without: edge cases that are left out: what compiles for each shape takes long over those of many widths.
    """
    setting = Setting(
        rows,
        hidden,
        per_decade,
        sum_rows,
        check_shape,
        eps,
        limit_u,
        slope_limit,
        edge_limit_u,
        seed,
        without=tuple(without),
    )
    return audited("audit_peers", PEERS, peers, dtypes, setting)

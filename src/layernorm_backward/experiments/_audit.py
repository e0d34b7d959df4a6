"""The audit of several kernels in several dtypes as rows of a table, for audit and audit_peers."""

from collections.abc import Mapping
from itertools import product
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field
from tqdm import tqdm

from layernorm_backward.audit import Setting, audit, report
from layernorm_backward.audit.setting import LEAST_HIDDEN
from layernorm_backward.dtypes import DtypeName
from layernorm_backward.kernels import Kernel, missing, version
from layernorm_backward.records.tabulate import table

Hidden = Annotated[int, Field(ge=LEAST_HIDDEN)]


def audited(
    stem: str, kernels: Mapping[str, Kernel], names: list[str], dtypes: list[DtypeName], setting: Setting
) -> pd.DataFrame:
    """One row per kernel, dtype and property; where a kernel cannot run, one row with the reason."""
    rows: list[dict[str, Any]] = []
    for dtype, name in tqdm(list(product(dtypes, names)), desc=stem, mininterval=1):
        kernel = kernels[name]
        reason = missing(kernel) or kernel.unsupported.get(dtype)
        if reason:
            common = {"kernel": name, "dtype": dtype, "version": version(kernel)}
            rows.append(common | {"property": "all", "limit": np.nan, "note": "", "reason": reason})
        else:
            rows += report.rows(kernel, dtype, version(kernel), audit(kernel, dtype, setting))
    return table(rows, stem)

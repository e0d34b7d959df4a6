"""How often a row exceeds its bound, and how much of the bound the errors use: a summary of `mean_path`.

bounded_rows: the rows that have a bound. ratio_median: the median over the cells of the median row's error
over its bound; ratio_max: of the worst row.
"""

import pandas as pd

from layernorm_backward.experiments._arguments import Several
from layernorm_backward.outliers import Data
from layernorm_backward.records.tabulate import table

NEEDS = ("mean_path",)
KEYS = ["algorithm", "dtype", "accumulator", "quantity"]


def run(*, data: Several[Data], mean_path: pd.DataFrame) -> pd.DataFrame:
    """One row per algorithm, dtype, accumulator and quantity, over all cells of these kinds of rows."""
    measured = mean_path[(mean_path["reason"] == "") & mean_path["data"].isin(data)]
    groups = measured.groupby(KEYS, sort=False)
    return table([dict(zip(KEYS, key, strict=True)) | _summary(cells) for key, cells in groups], "tightness")


def _summary(cells: pd.DataFrame) -> dict[str, object]:
    bounded = cells[cells["bounded_rows"] > 0]
    return {
        "cells": len(cells),
        "rows": int(cells["rows"].sum()),
        "bounded_rows": int(bounded["bounded_rows"].sum()),
        "violations": int(bounded["violations"].sum()),
        "ratio_median": float(bounded["bound_ratio_median"].median()),
        "ratio_max": float(bounded["bound_ratio_max"].max()),
        "reason": "" if len(bounded) else "no row of these cells has a bound",
    }

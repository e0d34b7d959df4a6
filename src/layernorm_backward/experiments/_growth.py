"""The power of the number of rows with which an error grows."""

import numpy as np
import pandas as pd

from layernorm_backward.fits import slope

LEAST_ROWS, LEAST_POINTS = 100, 5
LOST = 0.5  # above this relative error the sum stagnates, which says nothing about the growth of errors


def with_growth(table: pd.DataFrame, curve: list[str]) -> pd.DataFrame:
    """The table with growth, growth_low and growth_high of each curve, repeated in all of its rows."""
    parts = []
    for _, rows in table.groupby(curve, sort=False):
        exponents = dict(zip(("growth", "growth_low", "growth_high"), _growth(rows), strict=True))
        parts.append(rows.assign(**exponents))
    return pd.concat(parts, ignore_index=True)


def _growth(curve: pd.DataFrame) -> tuple[float, float, float]:
    """The slope on log-log axes and the ends of its interval; NaN for too few points."""
    median = curve["rel_error_median"]
    used = curve[(curve["rows"] >= LEAST_ROWS) & (median > 0) & (median < LOST)]
    if len(used) < LEAST_POINTS:
        return np.nan, np.nan, np.nan
    fit = slope(used["rows"], used["rel_error_median"])
    return fit.value, fit.low, fit.high

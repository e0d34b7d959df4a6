"""Properties of test rows after rounding to a dtype: finite, not constant, their kappa and kappa_g."""

from typing import NamedTuple

import numpy as np

from layernorm_backward import oracle
from layernorm_backward.double_double import Floats
from layernorm_backward.theory.exact_rows import kappa

KAPPA_FACTOR = 1.25  # the largest factor between the wanted kappa and that of the rounded rows


class RoundedRows(NamedTuple):
    """Whether all rows are finite, the fewest distinct values of a row, and why there is nothing to test."""

    finite: bool
    distinct: int
    reason: str


def rounded_rows(x: Floats, dtype: str) -> RoundedRows:
    """Properties of rows x (N, D), which are rounded to `dtype`; the reason is "" where all can be tested."""
    finite = np.isfinite(x).all(axis=-1)
    distinct = np.array([len(np.unique(row)) for row in x])
    if not finite.all():
        reason = f"{int(np.sum(~finite))} of {len(x)} rows overflow in {dtype}"
    elif distinct.min() == 1:
        reason = f"{int(np.sum(distinct == 1))} of {len(x)} rows are constant in {dtype}"
    else:
        reason = ""
    return RoundedRows(bool(finite.all()), int(distinct.min()), reason)


def kappa_mismatch(moments: oracle.Moments, wanted: float, dtype: str) -> str:
    """Why rounded rows with these moments do not have the wanted kappa; "" where they do."""
    rows, variance = f"rows of kappa {wanted:g}", moments.variance.hi
    if not np.isfinite(variance).all():
        return f"{rows} overflow in {dtype}"
    if np.any(variance == 0):
        return f"{rows} are constant in {dtype}"
    found = float(np.median(kappa(moments)))
    if not 1 / KAPPA_FACTOR <= found / wanted <= KAPPA_FACTOR:
        return f"{rows} have kappa {found:.3g} once rounded to {dtype}"
    return ""


def kappa_g(g: Floats, deviation: Floats, dx: Floats) -> float:
    """The median of `kappas_g`."""
    return float(np.median(kappas_g(g, deviation, dx)))


def kappas_g(g: Floats, deviation: Floats, dx: Floats) -> Floats:
    """rms(g)/(deviation*rms(dx)) of each row (rows,); g, dx (rows, D), deviation = 1/rstd (rows,)."""
    return np.linalg.norm(g, axis=-1) / deviation / np.linalg.norm(dx, axis=-1)

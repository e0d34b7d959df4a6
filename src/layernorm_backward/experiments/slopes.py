"""Powers of kappa, of D and of kappa_g with which the median error grows, beside those of the theory.

Slopes on log-log axes (`fits`) of error_u_median (dgamma, dbeta: of the one vector), Gaussian rows.

    kappa      at one D: the errors above `above` times the smallest; all of them where none rises above it
    hidden     D, at the largest kappa that `fewest` sizes have
    kappa_g    dx of upstream gradients nearly along 1 and x_hat, at the smallest kappa; the rule of kappa

All points are of first order: errors below `below` relative to the result, kappa*u below `kappa_u`, u of the
statistics' sums. Beyond, the numbers are so coarse that the rounding of the mean is the same in every row.

expected: the power that the theory gives, none for D, whose growth bounds overestimate; deviation: value less
expected. fitted_low, fitted_high: the range fitted; kappa: where it is held fixed.
"""

from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field

from layernorm_backward.experiments._arguments import Count, Positive
from layernorm_backward.experiments._sweeps import Sweep, first_order, gathered, sweeps
from layernorm_backward.fits import slope
from layernorm_backward.records.tabulate import table
from layernorm_backward.theory.powers import POWERS, power

NEEDS = ("mean_path", "backward_error", "cancellation")


def run(
    *,
    hidden: Count,
    above: Positive,
    below: Positive,
    kappa_u: Positive,
    fewest: Annotated[int, Field(ge=2)],
    mean_path: pd.DataFrame,
    backward_error: pd.DataFrame,
    cancellation: pd.DataFrame,
) -> pd.DataFrame:
    """One row per table, kernel or algorithm, dtype, accumulator, upstream, quantity and variable."""
    points = gathered(mean_path, backward_error, cancellation)
    rows = []
    for sweep in sweeps(points[first_order(points, below, kappa_u)], hidden, fewest):
        fitted, reason = _grown(sweep, above, fewest)
        row = sweep.key | {"property": sweep.axis, "kappa": sweep.kappa, "expected": _expected(sweep)}
        row |= {"points": len(fitted.x), "reason": reason}
        rows.append(row if reason else row | _fit(fitted))
    return table(rows, "slopes")


def _expected(sweep: Sweep) -> float:
    """The power of the theory; NaN where it gives none, or does not know the kernel."""
    if sweep.axis == "hidden":
        return np.nan
    if sweep.axis == "kappa_g":
        return 1.0
    kernel = sweep.key["kernel"]
    if sweep.key["quantity"] == "dbeta" and kernel in POWERS:
        return 0.0
    return power(kernel, sweep.key["dtype"])


def _grown(sweep: Sweep, above: float, fewest: int) -> tuple[Sweep, str]:
    """The sweep with the points to fit, and why a slope through them would say nothing."""
    count = len(sweep.x)
    if sweep.axis != "hidden" and count:
        grown = sweep.error > above * sweep.error.min()
        if not grown.any() and count >= fewest and _expected(sweep) > 0:
            return sweep, f"no error above {above:g} times the smallest"
        if grown.any():
            sweep = sweep._replace(x=sweep.x[grown], error=sweep.error[grown])
    count = len(sweep.x)
    return sweep, f"{count} points; a fit needs {fewest}" if count < fewest else ""


def _fit(sweep: Sweep) -> dict[str, Any]:
    found = slope(sweep.x, sweep.error)
    return {
        "value": found.value,
        "value_low": found.low,
        "value_high": found.high,
        "deviation": found.value - _expected(sweep),
        "fitted_low": float(sweep.x.min()),
        "fitted_high": float(sweep.x.max()),
    }

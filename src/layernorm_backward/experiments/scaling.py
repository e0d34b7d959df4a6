"""How time and memory grow with N and with D: exponents p of size**p, fitted to `scaling_points`.

The slope of the logarithms is Theil and Sen's, with its 95 % interval (`fits`). Of the sizes only the upper
`decades` are fitted. Times, moreover, only from `above` times on what a call costs on a single element:
below, time hardly grows with the work. memory is all that is alive at the peak, extra what of it is neither
input nor result.
"""

from typing import Annotated

import pandas as pd
from pydantic import Field

from layernorm_backward.experiments._arguments import Positive
from layernorm_backward.fits import slope
from layernorm_backward.records.tabulate import table

NEEDS = ("scaling_points",)
QUANTITIES = {"time": "median_s", "memory": "peak_bytes", "extra": "extra_bytes"}
FEWEST = 3  # points for a slope; `fits` says how many for its interval
_FromOne = Annotated[float, Field(ge=1, allow_inf_nan=False)]


def run(*, decades: Positive, above: _FromOne, scaling_points: pd.DataFrame) -> pd.DataFrame:
    """One row per kernel, direction, axis and quantity; `decades` counts down from the largest size."""
    rows = []
    for (kernel, direction, axis), points in scaling_points.groupby(
        ["kernel", "direction", "axis"], sort=False
    ):
        upper = _upper(points[points["reason"] == ""], axis, decades)
        for quantity, column in QUANTITIES.items():
            key = {"kernel": kernel, "direction": direction, "axis": axis, "quantity": quantity}
            slow = upper["median_s"] >= above * upper["overhead_s"]
            fitted = upper[slow] if quantity == "time" else upper
            rows.append(key | _exponent(fitted[axis], fitted[column]))
    return table(rows, "scaling")


def _upper(points: pd.DataFrame, axis: str, decades: float) -> pd.DataFrame:
    return points[points[axis] * 10**decades >= points[axis].max()]


def _exponent(sizes: pd.Series, values: pd.Series) -> dict[str, object]:
    if len(sizes) < FEWEST:
        return {"points": len(sizes), "reason": f"{len(sizes)} points; a fit needs {FEWEST}"}
    fitted = slope(sizes, values)
    return {
        "exponent": fitted.value,
        "exponent_low": fitted.low,
        "exponent_high": fitted.high,
        "points": fitted.points,
    }

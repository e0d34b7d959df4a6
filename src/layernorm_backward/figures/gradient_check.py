"""V-curves: the error of numerical gradients against the step."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_backward.dtypes import unit_roundoff
from layernorm_backward.figures import _panels, style

TABLES = ("gradient_check",)
CAPTION = (
    "Relative error of numerical gradients of the reference kernel against the step, float64, every element, "
    "by gradient (rows of panels) and shape (columns); the complex step also holds for smaller steps. Bars "
    "at the bottom of (a) to (c): predicted best step of the differences of order 2, 4 and 6. Left of it "
    "rounding rules and these differences coincide. $y$ is linear in $\\gamma$ and $\\beta$, so their "
    "gradients have no truncation error."
)
_ORDER = {
    "central2": 2,
    "central4": 4,
    "central6": 6,
}  # richardson, of order 6, shares its tick with central6


def draw(gradient_check: pd.DataFrame) -> Figure:
    """Rows are gradients, columns shapes; ticks on the step axis are the optima (kappa u)^(1/(order+1))."""
    rows = _sweep(_panels.measured(gradient_check, "rel_error"))
    if rows.empty:
        return _panels.empty(gradient_check, "Error of numerical gradients against the step")
    quantities, shapes = style.ordered(rows["quantity"]), sorted(set(rows["shape"]), key=_panels.size)
    height = 0.7 + 0.86 * len(quantities)
    figure, axes = _panels.grid(len(quantities), len(shapes), height, sharex=True, sharey=True)
    for (row, column), panel in np.ndenumerate(axes):
        part = rows[(rows["quantity"] == quantities[row]) & (rows["shape"] == shapes[column])]
        _curves(panel, part)
        if quantities[row] == "dx":  # y is linear in gamma and beta: any step is small enough
            _optima(panel, set(part["method"]))
        if row == 0:
            _panels.subject(panel, _panels.times(shapes[column]))
        if column == 0:
            panel.set_ylabel(f"error of {style.MATH.get(quantities[row], quantities[row])}")
        if row == len(quantities) - 1:
            panel.set_xlabel("step")
    _limits(axes[0, 0], rows)
    _panels.legend(figure, rows["method"])
    return figure


def _sweep(rows: pd.DataFrame) -> pd.DataFrame:
    """One kernel, the reference if present; every element checked; methods with several steps."""
    rows = rows[rows["scope"] == "full"]
    rows = rows[rows["kernel"].isin(style.ordered(rows["kernel"])[:1])]
    return rows[rows.groupby("method")["step"].transform("nunique") > 1]


def _curves(panel: Axes, rows: pd.DataFrame) -> None:
    worst = rows.groupby(["method", "step"], as_index=False)["rel_error"].max()
    panel.set_xscale("log")
    panel.set_yscale("log")
    _panels.unmeasured(panel, rows)
    worst["rel_error"] = worst["rel_error"].clip(lower=1e-17)
    _panels.curves(panel, worst, "step", "rel_error", "method")


def _optima(panel: Axes, methods: set[str]) -> None:
    """Ticks at (kappa u)^(1/(order + 1)); kappa is 1 for rows from N(0,1)."""
    for method in style.ordered(methods & set(_ORDER)):
        best = unit_roundoff(np.float64) ** (1 / (_ORDER[method] + 1))
        panel.axvline(best, ymax=0.09, color=style.look(method).colour, linewidth=2)


def _limits(panel: Axes, rows: pd.DataFrame) -> None:
    swept = rows[rows["method"] != "complex_step"]["step"]
    if len(swept):
        panel.set_xlim(swept.min() / 2, swept.max() * 2)
    _panels.powers(panel.xaxis)
    _panels.powers(panel.yaxis)

"""The error of dx against eps, for rows with usual, no and hardly any variance."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from layernorm_backward.figures import _panels

TABLES = ("eps",)
CAPTION = (
    "Largest error of $dx$, in $u$ of the dtype of $x$, against $\\varepsilon$, $dy\\sim N(1,1)$, on rows "
    "from $N(0,1)$, constant ones and ones from $N(0,\\varepsilon)$; $\\infty$: some element is not "
    "finite. The kernels coincide but for (d) to (f): `reference` works in float64, and on constant rows "
    "`compact` and `overcached`, which coincide, divide the rounding error of the mean by "
    "$\\sqrt\\varepsilon$. In (h) and (i) $dx$ overflows float16."
)
_KINDS = ("usual", "constant", "nearly_constant")
_TICKS = (1.0, 1e3, 1e6)
_TOP = 1e9  # where a result that is not finite is drawn


def draw(eps: pd.DataFrame) -> Figure:
    """Rows are dtypes, columns kinds of row; what is not finite stands at the tick ∞."""
    rows = _panels.measured(eps, "error_u_max")
    rows = rows[rows["quantity"] == "dx"]
    if rows.empty:
        return _panels.empty(eps, "Error of dx against eps")
    dtypes, kinds = _panels.dtypes(rows["dtype"]), [kind for kind in _KINDS if kind in set(rows["row_kind"])]
    figure, axes = _panels.grid(len(dtypes), len(kinds), 0.7 + 0.75 * len(dtypes), sharex=True, sharey="row")
    for (row, column), panel in np.ndenumerate(axes):
        _panel(panel, rows[(rows["dtype"] == dtypes[row]) & (rows["row_kind"] == kinds[column])])
        if column == 0:
            panel.set_ylabel(f"{dtypes[row]} ($u$)")
        if row == 0:
            _panels.subject(panel, kinds[column].replace("_", " "))
        if row == len(dtypes) - 1:
            panel.set_xlabel(r"$\varepsilon$")
    _panels.legend(figure, rows["kernel"], columns=6)
    return figure


def _panel(panel: Axes, rows: pd.DataFrame) -> None:
    panel.set_xscale("log")
    panel.set_yscale("log")
    shown = rows.assign(error_u_max=rows["error_u_max"].replace(np.inf, _TOP).clip(0.1, _TOP))
    _panels.curves(panel, shown, "eps", "error_u_max", "kernel")
    panel.set_ylim(0.05, 4 * _TOP)
    panel.set_yticks([*_TICKS, _TOP], [*(f"$10^{{{np.log10(tick):.0f}}}$" for tick in _TICKS), "∞"])
    panel.yaxis.set_minor_locator(NullLocator())
    _panels.powers(panel.xaxis)

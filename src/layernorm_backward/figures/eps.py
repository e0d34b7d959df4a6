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
    "finite. The kernels differ in float32: `reference` works in float64, and on constant rows `compact` and "
    "`overcached`, which coincide, divide the rounding error of the mean by $\\sqrt\\varepsilon$. A dtype in "
    "which all kernels coincide and all results are finite is named below the panels."
)
_ALIKE = 1.25  # largest ratio of errors of kernels that coincide
_KINDS = ("usual", "constant", "nearly_constant")
_TICKS = (1.0, 1e3, 1e6)
_TOP = 1e9  # where a result that is not finite is drawn


def draw(eps: pd.DataFrame) -> Figure:
    """Rows are dtypes, columns kinds of row; results that are not finite are drawn at the tick ∞."""
    rows = _panels.measured(eps, "error_u_max")
    rows = rows[rows["quantity"] == "dx"]
    if rows.empty:
        return _panels.empty(eps, "Error of dx against eps")
    every = _panels.dtypes(rows["dtype"])
    dtypes = [name for name in every if not _coincide(rows[rows["dtype"] == name])] or every
    kinds = [kind for kind in _KINDS if kind in set(rows["row_kind"])]
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
    _panels.note(figure, _left_out(rows[~rows["dtype"].isin(dtypes)]))
    return figure


def _coincide(rows: pd.DataFrame) -> bool:
    """Whether all results of a dtype are finite and several kernels have almost the same errors."""
    if rows["kernel"].nunique() == 1:
        return False
    errors = rows.groupby(["row_kind", "eps"])["error_u_max"]
    return bool(
        np.isfinite(rows["error_u_max"]).all() and (errors.max() <= _ALIKE * errors.min() + 0.01).all()
    )


def _left_out(rows: pd.DataFrame) -> str:
    """Which dtypes are not drawn, as a note."""
    if rows.empty:
        return ""
    names, most = " and ".join(_panels.dtypes(rows["dtype"])), rows["error_u_max"].max()
    return f"Not drawn: {names}, where all kernels coincide; the largest error there is {most:.1f} u."


def _panel(panel: Axes, rows: pd.DataFrame) -> None:
    panel.set_xscale("log")
    panel.set_yscale("log")
    shown = rows.assign(error_u_max=rows["error_u_max"].replace(np.inf, _TOP).clip(0.1, _TOP))
    _panels.unmeasured(panel, rows)
    _panels.curves(panel, shown, "eps", "error_u_max", "kernel")
    panel.set_ylim(0.05, 4 * _TOP)
    panel.set_yticks([*_TICKS, _TOP], [*(f"$10^{{{np.log10(tick):.0f}}}$" for tick in _TICKS), "∞"])
    panel.yaxis.set_minor_locator(NullLocator())
    _panels.powers(panel.xaxis)

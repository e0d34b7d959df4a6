"""The error of dx against the condition number of the row, for every kernel, dtype and upstream gradient."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_backward.figures import _panels, style

TABLES = ("backward_error",)
CAPTION = (
    "Largest error of $dx$ over the rows, in $u$ of the dtype of $x$, against $\\kappa$, {hidden}, by "
    "dtype (lines) and $dy$ (columns); float16 and bfloat16 with sums in float32. Dashed, in the colour of "
    "the kernel: bounds; a line ends where the bound is infinite. `compact` and `overcached` coincide, in "
    "float64 with `reference` too, and so do `recentred` and `numpy_blocked`; in 16 bits all kernels do but "
    "for (i) and (l). Hatched: no row of the dtype has this $\\kappa$. Kernels that re-centre stay flat."
)


def draw(backward_error: pd.DataFrame) -> Figure:
    """Rows are dtypes, columns upstream gradients; errors in u of the dtype of x, so that rows compare."""
    rows = captioned(backward_error)
    if rows.empty:
        return _panels.empty(backward_error, "Error of dx against the condition number")
    dtypes, upstreams = (
        _panels.dtypes(rows["dtype"]),
        [name for name in style.UPSTREAM if name in set(rows["upstream"])],
    )
    figure, axes = _panels.grid(
        len(dtypes), len(upstreams), 0.9 + 0.95 * len(dtypes), sharex=True, sharey="row"
    )
    for (row, column), panel in np.ndenumerate(axes):
        part = rows[rows["dtype"] == dtypes[row]]
        by_kappa(panel, part[part["upstream"] == upstreams[column]])
        if column == 0:
            panel.set_ylabel(f"{dtypes[row]} ($u$)")
        if row == 0:
            _panels.subject(panel, style.UPSTREAM[upstreams[column]])
        if row == len(dtypes) - 1:
            panel.set_xlabel(r"condition number $\kappa$")
    for panel in axes[:, 0]:
        low, high = panel.get_ylim()
        panel.set_ylim(min(low, 0.1), max(high, 100))
        _panels.powers(panel.yaxis)
    _panels.powers(axes[0, 0].xaxis)
    for panels, dtype in zip(axes, dtypes, strict=True):
        for panel in panels:
            _panels.beyond(panel, rows[rows["dtype"] == dtype]["kappa"].max(), rows["kappa"])
    _panels.legend(figure, rows["kernel"], _panels.guide("bound"), _panels.no_rows(), columns=4)
    return figure


def captioned(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of dx at one D, which the caption names."""
    rows = _panels.measured(table, "error_u_max")
    return _panels.at_one_size(rows[rows["quantity"] == "dx"])


def by_kappa(panel: Axes, rows: pd.DataFrame) -> None:
    """One curve per kernel against kappa, and its bound in the same colour."""
    panel.set_xscale("log")
    panel.set_yscale("log")
    bounds = rows.dropna(subset=["bound_u"]).groupby("kernel")
    for name, part in bounds:
        part = part.sort_values("kappa")
        panel.plot(part["kappa"], part["bound_u"], "--", color=style.look(str(name)).colour, linewidth=0.8)
    _panels.curves(panel, rows, "kappa", "error_u_max", "kernel")
    _panels.unmeasured(panel, rows)

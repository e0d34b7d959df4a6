"""The error of dx against the condition number, by what the forward pass saves of the mean."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_backward.figures import _panels, style

TABLES = ("saved_statistics",)
CAPTION = (
    "Largest error of $dx$ over the rows, in $u$ of the dtype of $x$, against $\\kappa$, {hidden}, "
    "{upstream}, by what the forward pass saves beside $r$; in the right column it is the plain two-pass "
    "one, elsewhere it re-centres. Dotted: slopes 1 and 2; hatched: no row of the dtype has this $\\kappa$. "
    "Hidden curves coincide with the lowest one, in (c) with the steep one. Errors above the panel are left "
    "out; in float32 a mean in float16 overflows at large $\\kappa$. float64 is like float32."
)
_COLUMNS = {
    ("recentred", "as_saved"): "used as saved",
    ("recentred", "recentred"): "re-centred",
    ("two_pass", "recentred"): "re-centred, forward plain",
}
_EDGES = (0.1, 1e7)  # u; from 1/u on nothing of dx is right


def draw(saved_statistics: pd.DataFrame) -> Figure:
    """Rows are dtypes but float64, columns what is done to the mean in the backward pass."""
    rows = _rows(saved_statistics)
    if rows.empty:
        return _panels.empty(saved_statistics, "Error of dx by what is saved of the mean")
    dtypes = _panels.dtypes(rows["dtype"])[-3:]
    columns = [pair for pair in _COLUMNS if pair in set(zip(rows["forward"], rows["backward"], strict=True))]
    columns = columns or [(rows["forward"].iloc[0], rows["backward"].iloc[0])]
    figure, axes = _panels.grid(len(dtypes), len(columns), 1 + 1.15 * len(dtypes), sharex=True, sharey=True)
    last = saved_statistics["kappa"].max()
    for (line, column), panel in np.ndenumerate(axes):
        forward, backward = columns[column]
        used = rows["backward"].isin([backward, "recentred_rstd"]) & (rows["forward"] == forward)
        _panel(panel, rows[used & (rows["dtype"] == dtypes[line])], last)
        if column == 0:
            panel.set_ylabel(f"{dtypes[line]} ($u$)")
        if line == 0:
            _panels.subject(panel, _COLUMNS.get(columns[column], backward))
        if line == len(dtypes) - 1:
            panel.set_xlabel(r"condition number $\kappa$")
    _panels.powers(axes[0, 0].yaxis, 5)
    _panels.powers(axes[0, 0].xaxis)
    _panels.legend(figure, rows["saved"], _panels.guide("slopes 1, 2", ":"), _panels.no_rows(), columns=5)
    return figure


def _rows(table: pd.DataFrame) -> pd.DataFrame:
    """The measured rows with rstd in full; those that correct it under a name of their own."""
    rows = _panels.measured(table, "dx_error_u_max")
    rows = rows[~rows["saved"].str.startswith("mean_rstd")]
    return rows.assign(saved=rows["saved"].mask(rows["backward"] == "recentred_rstd", "corrected_rstd"))


def _panel(panel: Axes, rows: pd.DataFrame, last: float) -> None:
    """Curves up to the largest kappa of the rows, hatching from there to the last kappa of the sweep."""
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlim(0.6, 1.7 * max(last, 10.0))
    panel.set_ylim(*_EDGES)
    _panels.unmeasured(panel, rows)
    if rows.empty:
        return
    reached = rows["kappa"].max()
    kappa = np.geomspace(1, max(10.0, reached), 50)
    for slope in (1, 2):
        panel.plot(kappa, 0.2 * kappa**slope, color=style.GREY, linestyle=":", linewidth=0.9)
    if reached < last:
        panel.axvspan(1.7 * reached, 1.7 * max(last, 10.0), **style.HATCH)
    _panels.curves(panel, rows, "kappa", "dx_error_u_max", "saved")

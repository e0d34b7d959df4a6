"""The error of every variance algorithm against the condition number of the row."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_backward.dtypes import dtype_of, unit_roundoff
from layernorm_backward.figures import _panels, style

TABLES = ("variance",)
CAPTION = (
    "Largest relative error of the variance against $\\kappa$, {hidden}, judged by the exact variance of the "
    "rounded row. With $S = \\sum x$ and $Q = \\sum x^2$: `naive`, $Q/D - (S/D)^2$; `naive_s2`, "
    "$(Q - S^2/D)/D$; `naive_nn`, $Q/D - S^2/D^2$; `naive_compensated`, `naive` with compensated sums. "
    "Dashed: bounds of `naive`, `two_pass` and `welford`; dotted: $u\\kappa$ and $u\\kappa^2$, $u$ that of "
    "the sums. The first three coincide nearly everywhere, `two_pass` and its corrected form up to about "
    "$1/\\sqrt{u}$. Errors far below $u$, zero among them, are drawn on the lower edge, overflows on the "
    "upper one."
)
_TOP = 1e2  # the upper edge, on which an overflow is drawn
_BOUNDED = ("naive", "two_pass", "welford")  # the others' bounds lie on or between these


def draw(variance: pd.DataFrame) -> Figure:
    """One panel per dtype and accumulator; Gaussian rows of one D."""
    rows = captioned(variance)
    if rows.empty:
        return _panels.empty(variance, "Error of the variance against the condition number")
    kinds = [
        (dtype, accumulator)
        for dtype in _panels.dtypes(rows["dtype"])
        for accumulator in sorted(set(rows[rows["dtype"] == dtype]["accumulator"]), reverse=True)
    ]
    columns = min(3, len(kinds))
    lines = -(-len(kinds) // columns)
    figure, axes = _panels.grid(lines, columns, 0.9 + 1.25 * lines)
    for panel in axes.flat[len(kinds) :]:
        panel.remove()
    for panel, (dtype, accumulator) in zip(axes.flat, kinds, strict=False):
        _panel(panel, rows[(rows["dtype"] == dtype) & (rows["accumulator"] == accumulator)])
        sums = dtype if accumulator == "storage" else accumulator
        _panels.subject(panel, f"{dtype}, sums {sums}")
    for panel in axes[:, 0]:
        panel.set_ylabel("relative error")
    for number in range(max(0, len(kinds) - columns), len(kinds)):
        axes.flat[number].set_xlabel(r"condition number $\kappa$")
    _panels.legend(
        figure, rows["algorithm"], _panels.guide("bound"), _panels.guide("slopes 1, 2", ":"), columns=4
    )
    return figure


def captioned(variance: pd.DataFrame) -> pd.DataFrame:
    """Gaussian rows of one D, which the caption names."""
    rows = _panels.measured(variance, "rel_error_max", "kappa")
    return _panels.at_one_size(rows[(rows["data"] == "gaussian") & rows["representable"].astype(bool)])


def _panel(panel: Axes, rows: pd.DataFrame) -> None:
    panel.set_xscale("log")
    panel.set_yscale("log")
    sums = rows["dtype"].iloc[0] if rows["accumulator"].iloc[0] == "storage" else rows["accumulator"].iloc[0]
    u = unit_roundoff(dtype_of(sums))
    kappa = np.geomspace(1, max(10.0, rows["kappa"].max()), 50)
    for slope in (1, 2):
        panel.plot(kappa, u * kappa**slope, color=style.GREY, linestyle=":", linewidth=0.9)
    for name in _BOUNDED:
        part = rows[(rows["algorithm"] == name)].dropna(subset=["bound"]).sort_values("kappa")
        panel.plot(part["kappa"], part["bound"], "--", color=style.look(name).colour, linewidth=0.8)
    finite = rows[np.isfinite(rows["rel_error_max"])]
    shown = finite.assign(rel_error_max=finite["rel_error_max"].clip(lower=u / 100))
    _panels.curves(panel, shown, "kappa", "rel_error_max", "algorithm")
    for row in rows[np.isinf(rows["rel_error_max"])].to_dict("records"):
        panel.plot([row["kappa"]], [_TOP], **style.look(row["algorithm"]).point, clip_on=False)
    panel.set_ylim(u / 200, _TOP)
    _panels.powers(panel.xaxis)
    _panels.powers(panel.yaxis)

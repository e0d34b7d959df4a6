"""The error of dgamma and dbeta against the number of rows, by order of summation; sums that stagnate."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_backward.figures import _panels, style

TABLES = ("summation",)
CAPTION = (
    "Median error of sums over $N$ rows relative to the exact sum, by order of summation, $dy\\sim "
    "N(1,1)$: (a), (b) in float32, (c) in bfloat16; dashed: bounds of the running and the pairwise sum, "
    "dotted: $\\sqrt N$. Not drawn: the kernels `recentred` and `numba_fused`, which coincide with the "
    "running and with the chunked sum in (a), and come within a factor of about two of them in (b). (d) The "
    "running sum itself, where $dy$ is one and where it is from $N(1,1)$; grey: the exact sum, up to which a "
    "sum should rise."
)
_ERRORS = (("float32", "dbeta"), ("float32", "dgamma"), ("bfloat16", "dbeta"))
_STOPS = {
    ("bfloat16", "ones"): ("bfloat16, ones", style.Look("#CC79A7", "D", "-", "none")),
    ("bfloat16", "shifted"): (r"bfloat16, $N(1,1)$", style.Look("#CC79A7", "D", "--")),
    ("float16", "ones"): ("float16, ones", style.Look("#56B4E9", "^", "-", "none")),
    ("float16", "shifted"): (r"float16, $N(1,1)$", style.Look("#56B4E9", "^", "--")),
}
_LOWEST = {"float32": 1e-9, "bfloat16": 1e-4}


def draw(summation: pd.DataFrame) -> Figure:
    """Three panels of errors with sums kept in the storage dtype; one of what the running sum comes to."""
    rows = _panels.measured(summation, "rel_error_median")
    rows = rows[(rows["accumulator"] == "storage") & ~rows["scheme"].str.startswith("kernel:")]
    if rows.empty:
        return _panels.empty(summation, "Error of sums over rows")
    figure, axes = _panels.grid(2, 2, 4.4, sharex=True)
    for panel, (dtype, quantity) in zip(axes.flat, _ERRORS, strict=False):
        _panels.subject(panel, f"{style.MATH[quantity]}, sums in {dtype}")
        chosen = (rows["dtype"] == dtype) & (rows["quantity"] == quantity) & (rows["upstream"] == "shifted")
        _errors(panel, rows[chosen], _LOWEST[dtype])
        panel.set_ylabel("median relative error")
    _stops(axes[1, 1], rows[(rows["scheme"] == "running") & (rows["quantity"] == "dbeta")])
    for panel in axes[1]:
        panel.set_xlabel("rows $N$")
    for panel in axes.flat:
        _panels.powers(panel.xaxis, 7)
    guides = (_panels.guide("bound"), _panels.guide(r"$\sqrt{N}$", ":"))
    _panels.legend(figure, rows["scheme"], *guides, columns=6)
    return figure


def _errors(panel: Axes, rows: pd.DataFrame, lowest: float) -> None:
    panel.set(xscale="log", yscale="log", ylim=(lowest, 3))
    shown = rows[rows["rel_error_median"] > 0]
    _panels.unmeasured(panel, rows)
    for name in ("running", "pairwise"):
        part = shown[shown["scheme"] == name].sort_values("rows")
        panel.plot(part["rows"], part["bound"], "--", color=style.look(name).colour, linewidth=0.8)
    running = shown[shown["scheme"] == "running"].sort_values("rows")
    if len(running):
        first = running.iloc[0]
        guide = 2 * first["rel_error_median"] * np.sqrt(running["rows"] / first["rows"])
        panel.plot(running["rows"], guide, ":", color=style.GREY, linewidth=1.1)
    _panels.curves(panel, shown, "rows", "rel_error_median", "scheme")
    _panels.powers(panel.yaxis)


def _stops(panel: Axes, rows: pd.DataFrame) -> None:
    """What the running sum comes to: the share of the exact sum, times N, for a mean of one."""
    panel.set(xscale="log", yscale="log")
    panel.set_ylabel("computed sum")
    _panels.subject(panel, r"$d\beta$, running sum")
    _panels.unmeasured(panel, rows)
    for (dtype, upstream), (label, look) in _STOPS.items():
        part = rows[(rows["dtype"] == dtype) & (rows["upstream"] == upstream)].sort_values("rows")
        if len(part):
            panel.plot(part["rows"], part["computed_share_median"] * part["rows"], label=label, **look.curve)
    if len(rows):
        ends = np.array([rows["rows"].min(), rows["rows"].max()])
        panel.plot(ends, ends, color=style.GREY, linewidth=0.9)
    if panel.get_legend_handles_labels()[1]:
        panel.legend(loc="upper left", fontsize=style.SMALL)
    _panels.powers(panel.yaxis)

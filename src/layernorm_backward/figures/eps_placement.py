"""What eps does to dx against the variance of the row: inside, outside and without the root, and stored."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_backward.figures import _panels, style

TABLES = ("eps_placement",)
EPS = 1e-5
CAPTION = (
    "Effect of $\\varepsilon$ on $dx$, by the variance of the row; $dy\\sim N(1,1)$ except in (a). In "
    "float32 with $\\varepsilon = 10^{-5}$: (a) change against $\\varepsilon \\to 0$, by kind of $dy$, with "
    "$\\varepsilon$ inside the root; (b) difference from $\\varepsilon$ inside, where it is outside of the "
    "root or omitted; (c) size of $dx$. (d) In float16: change when $\\varepsilon$ is rounded to float16 "
    "first, for several $\\varepsilon$. Curves that do not reach variance 0 have no finite $dx$, or no "
    "change, there."
)
_ZERO = 1e-14  # where rows of variance zero are drawn
_UPSTREAM = {
    "normal": (r"$dy\sim N(0,1)$", style.Look("#56B4E9", "o", "-", "none", 5.0)),
    "shifted": (r"$dy\sim N(1,1)$", style.Look("#0072B2", "s", ":")),
    "correlated": (r"$dy$ correlated with $x$", style.Look("#E69F00", "^", "--")),
    "aligned": (r"$dy$ along $1$ and $\hat x$", style.Look("#D55E00", "D", "-")),
}
_STORED = (
    style.Look("#000000", "x", ":"),
    style.Look("#CC79A7", "D", "-"),
    style.Look("#56B4E9", "s", "--", "none"),
    style.Look("#009E73", "v", "-"),
    style.Look("#8C5A00", "^", "--"),
)


def draw(eps_placement: pd.DataFrame) -> Figure:
    """Four panels over the variance; those but the last are of the widest dtype that the table holds."""
    rows = _panels.measured(eps_placement)
    if rows.empty:
        return _panels.empty(eps_placement, "Change of dx by eps")
    figure, axes = _panels.grid(2, 2, 4.6, sharex=True)
    near = rows[rows["eps"] == _panels.nearest(rows["eps"], EPS)]
    wide = near[near["dtype"] == _panels.dtypes(near["dtype"])[0]]
    _by_upstream(axes[0, 0], wide[wide["placement"] == "inside"])
    one_kind = wide[(wide["upstream"] == "shifted") & (wide["placement"] != "stored")]
    _by_placement(axes[0, 1], one_kind, "dx_from_inside")
    _by_placement(axes[1, 0], one_kind, "dx_gain")
    _stored(axes[1, 1], rows[(rows["dtype"] == "float16") & (rows["upstream"] == "shifted")])
    subjects = ("change by eps", "change against inside", "size of $dx$", "eps stored in float16")
    labels = ("relative change of $dx$",) * 2 + (r"rms$(dx)/$rms$(dy)$", "relative change of $dx$")
    for panel, subject, label in zip(axes.flat, subjects, labels, strict=True):
        _panels.subject(panel, subject.replace("eps", r"$\varepsilon$"))
        panel.set_ylabel(label)
        _panels.powers(panel.yaxis)
    for panel in axes[1]:
        panel.set_xlabel("variance")
        panel.set_xticks([_ZERO, 1e-10, 1e-5, 1.0], ["0", "$10^{-10}$", "$10^{-5}$", "$1$"])
        panel.minorticks_off()
    _panels.legend(figure, one_kind["placement"], _panels.guide("1 %", "-"))
    return figure


def _by_upstream(panel: Axes, rows: pd.DataFrame) -> None:
    panel.set(xscale="log", yscale="log")
    _panels.unmeasured(panel, rows)
    panel.axhline(0.01, color=style.GREY, linewidth=0.9)
    for kind, (label, look) in _UPSTREAM.items():
        _curve(panel, rows[rows["upstream"] == kind], "dx_change", label, look)
    _key(panel, "lower left")


def _by_placement(panel: Axes, rows: pd.DataFrame, column: str) -> None:
    panel.set(xscale="log", yscale="log")
    _panels.unmeasured(panel, rows)
    for name in style.ordered(rows["placement"]):
        _curve(panel, rows[rows["placement"] == name], column, "_", style.look(name))


def _stored(panel: Axes, rows: pd.DataFrame) -> None:
    panel.set(xscale="log", yscale="log", ylim=(1e-9, 1e4))
    rows = rows[rows["placement"] == "stored"]
    _panels.unmeasured(panel, rows)
    for (value, part), look in zip(rows.groupby("eps"), _STORED, strict=False):
        power = int(np.round(np.log10(value)))
        _curve(panel, part, "dx_from_inside", rf"$\varepsilon = 10^{{{power}}}$", look)
    _key(panel, "upper right")


def _curve(panel: Axes, rows: pd.DataFrame, column: str, label: str, look: style.Look) -> None:
    part = rows[np.isfinite(rows[column]) & (rows[column] > 0)].sort_values("variance")
    if len(part):
        panel.plot(part["variance"].clip(lower=_ZERO), part[column], label=label, **look.curve)


def _key(panel: Axes, where: str) -> None:
    if panel.get_legend_handles_labels()[1]:
        panel.legend(loc=where, fontsize=style.SMALL)

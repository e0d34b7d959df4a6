"""What each kernel keeps for its backward pass, in arrays of the size of x."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from layernorm_backward.dtypes import dtype_of
from layernorm_backward.figures import _panels, style

TABLES = ("timing_cpu",)
CAPTION = (
    "Bytes that each kernel keeps for the backward pass over bytes of $x$; filled: besides $x$ and "
    "$\\gamma$, hatched: $x$ and $\\gamma$, which the caller holds anyway. Numbers: without and with these."
)
_SHAPE = "16x512x1024"


def draw(timing_cpu: pd.DataFrame) -> Figure:
    """One panel per dtype, one bar per kernel: dark without x and gamma, pale with them."""
    rows = _panels.measured(timing_cpu, "saved_bytes", "saved_extra_bytes")
    if rows.empty:
        return _panels.empty(timing_cpu, "Bytes saved for the backward pass")
    shapes = sorted(set(rows["shape"]), key=_panels.size)
    shape = _SHAPE if _SHAPE in shapes else shapes[-1]
    rows = rows[rows["shape"] == shape].drop_duplicates(["kernel", "dtype"])
    dtypes, kernels = _panels.dtypes(rows["dtype"]), style.ordered(rows["kernel"])
    figure, axes = _panels.grid(1, len(dtypes), 0.9 + 0.18 * len(kernels), sharey=True, sharex=True)
    for panel, dtype in zip(axes.flat, dtypes, strict=True):
        _bars(panel, rows[rows["dtype"] == dtype], kernels)
        _panels.subject(panel, f"{dtype}, {_panels.times(shape)}")
        panel.set_xlabel("bytes saved / bytes of $x$")
    axes[0, 0].set_yticks(range(len(kernels)), kernels)
    axes[0, 0].set_ylim(len(kernels) - 0.4, -0.6)
    axes[0, 0].set_xlim(0, 1.25 * axes[0, 0].get_xlim()[1])
    figure.legend(
        handles=[
            Patch(facecolor=style.GREY, edgecolor=style.GREY, label=r"kept besides $x$ and $\gamma$"),
            Patch(facecolor="white", edgecolor=style.GREY, hatch="////", label=r"$x$ and $\gamma$"),
        ],
        loc="outside upper center",
        ncols=2,
    )
    return figure


def _bars(panel: Axes, rows: pd.DataFrame, kernels: list[str]) -> None:
    panel.grid(False, axis="y")
    for row in rows.to_dict("records"):
        height, colour = kernels.index(row["kernel"]), style.look(row["kernel"]).colour
        unit = row["rows"] * row["hidden"] * dtype_of(row["dtype"]).itemsize
        extra, total = row["saved_extra_bytes"] / unit, row["saved_bytes"] / unit
        panel.barh(height, extra, height=0.6, color=colour)
        panel.barh(
            height,
            total - extra,
            left=extra,
            height=0.6,
            color="white",
            edgecolor=colour,
            hatch="////",
            linewidth=0.6,
        )
        panel.text(total, height, f" {extra:.3g} / {total:.3g}", va="center", fontsize=7.5)

"""The bytes that every kernel moves, by its model and by a count, against the least possible."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from layernorm_backward.directions import DIRECTIONS
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.figures import _panels, style

TABLES = ("traffic_cpu",)
CAPTION = (
    "Bytes moved according to the model (marker) over bytes of $x$, with the minimum (vertical bar), each "
    "kernel beyond the cache where it was timed there, at $D$ nearest to 1024; a cross, where one is drawn: "
    "bytes counted by the memory controllers, or estimated from time and roof where there are no counters. "
    "`separate` and `fused` are the schemes of @fig:fusion."
)


def draw(traffic_cpu: pd.DataFrame) -> Figure:
    """One panel per direction, one line per kernel; in arrays of x's size."""
    rows = _panels.measured(traffic_cpu, "modelled_bytes", "minimum_bytes")
    rows = rows[rows["dtype"].isin(("float64", "float32"))]
    if rows.empty:
        return _panels.empty(traffic_cpu, "Bytes moved by the kernels")
    rows = _one_each(rows)
    directions = [name for name in DIRECTIONS if name in set(rows["direction"])]
    kernels = style.ordered(rows["kernel"])
    figure, axes = _panels.grid(1, len(directions), 0.85 + 0.15 * len(kernels), sharey=True)
    for panel, direction in zip(axes.flat, directions, strict=True):
        _panel(panel, rows[rows["direction"] == direction], kernels)
        _panels.subject(panel, direction)
        panel.set_xlabel("bytes moved / bytes of $x$")
    axes[0, 0].set_yticks(range(len(kernels)), kernels)
    axes[0, 0].set_ylim(len(kernels) - 0.4, -0.6)
    figure.legend(handles=_handles(rows), loc="outside upper center", ncols=4)
    return figure


def _one_each(rows: pd.DataFrame) -> pd.DataFrame:
    """One row a kernel and direction: a measured one before others, then D nearest to 1024, most elements."""
    order = pd.DataFrame(
        {
            "unmeasured": rows["measured_bytes"].isna(),
            "far": _panels.octaves_off(rows),
            "fewer": -(rows["rows"] * rows["hidden"]).astype(float),
        }
    ).sort_values(["unmeasured", "far", "fewer"], kind="stable")
    return rows.loc[order.index].drop_duplicates(["kernel", "direction"])


def _panel(panel: Axes, rows: pd.DataFrame, kernels: list[str]) -> None:
    for row in rows.to_dict("records"):
        height, look = kernels.index(row["kernel"]), style.look(row["kernel"])
        unit = row["rows"] * row["hidden"] * dtype_of(row["dtype"]).itemsize
        least, model, counted = (
            row[name] / unit for name in ("minimum_bytes", "modelled_bytes", "measured_bytes")
        )
        panel.plot([least, model], [height, height], color=look.colour, linewidth=1.6, solid_capstyle="butt")
        panel.plot([least], [height], marker="|", markersize=9, color=style.GREY, markeredgewidth=1.6)
        panel.plot([model], [height], **look.point)
        panel.plot([counted], [height], marker="x", markersize=7, color="black")
    panel.set_xlim(left=0)


def _handles(rows: pd.DataFrame) -> list[Line2D]:
    point = {"linestyle": "none", "color": style.GREY}
    handles = [
        Line2D([], [], marker="|", markersize=9, markeredgewidth=1.6, label="least possible", **point),
        Line2D([], [], marker="o", label="model", **point),
    ]
    if rows["measured_bytes"].notna().any():
        handles.append(
            Line2D(
                [],
                [],
                marker="x",
                markersize=7,
                label="counted or estimated",
                linestyle="none",
                color="black",
            )
        )
    return handles

"""The fraction of the memory roof that the fused kernel reaches, against the hidden size."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from layernorm_backward.figures import _panels, style

TABLES = ("timing_cpu",)
CAPTION = (
    "Fraction of the roof that `numba_fused` reaches (with interval) against the hidden size, rows so many "
    "that the arrays are four times the last-level cache (filled) or stay in it (open, dotted). Lines "
    "across: floor and goal of the backward pass with all threads."
)
_KERNEL = "numba_fused"
_FLOOR, _GOAL = 0.88, 0.95
_COLOURS = {"float64": "#000000", "float32": "#0072B2", "float16": "#D55E00", "bfloat16": "#009E73"}
_MARKERS = {"float64": "o", "float32": "s", "float16": "^", "bfloat16": "D"}


def draw(timing_cpu: pd.DataFrame) -> Figure:
    """Columns are directions, rows thread counts; a line a dtype."""
    rows = _panels.measured(timing_cpu, "roof_fraction")
    rows = rows[(rows["gamma_dtype"] == rows["dtype"]) & (rows["residency"] != "partly")]
    if _KERNEL in set(rows["kernel"]):
        rows = rows[rows["kernel"] == _KERNEL]
    if rows.empty:
        return _panels.empty(timing_cpu, "Fraction of the roof")
    directions = [name for name in style.DIRECTIONS if name in set(rows["direction"])]
    threads = sorted(set(rows["threads"]), reverse=True)
    height = 0.6 + 1.6 * len(threads)
    figure, axes = _panels.grid(len(threads), len(directions), height, sharex=True, sharey=True)
    for line, count in enumerate(threads):
        for column, direction in enumerate(directions):
            part = rows[(rows["threads"] == count) & (rows["direction"] == direction)]
            _panel(axes[line, column], part)
            _panels.subject(axes[line, column], f"{direction}, {count} thread{'s' if count > 1 else ''}")
        axes[line, 0].set_ylabel("fraction of the roof", labelpad=6)
    for panel in axes[-1]:
        panel.set_xlabel("hidden size $D$")
    axes[0, 0].set_ylim(0, max(1.05, 1.02 * rows["roof_fraction"].max()))
    _legend(figure, _panels.dtypes(rows["dtype"]))
    return figure


def most_threads(rows: pd.DataFrame) -> pd.DataFrame:
    """Of each kernel and cell the row with the most threads, gamma in the dtype of x."""
    rows = rows[rows["gamma_dtype"] == rows["dtype"]]
    cells = rows.groupby(["kernel", "direction", "dtype", "shape"])["threads"]
    return rows[rows["threads"] == cells.transform("max")] if len(rows) else rows


def _panel(panel: Axes, rows: pd.DataFrame) -> None:
    panel.set_xscale("log", base=2)
    for (dtype, where), part in rows.groupby(["dtype", "residency"]):
        part = part.sort_values("hidden").drop_duplicates("hidden")
        value = part["roof_fraction"].to_numpy(float)
        low, high = (part[f"roof_fraction_{end}"].to_numpy(float) for end in ("low", "high"))
        inside = where == "cache"
        panel.errorbar(
            part["hidden"].to_numpy(float),
            value,
            yerr=[(value - low).clip(min=0), (high - value).clip(min=0)],
            color=_COLOURS[dtype],
            marker=_MARKERS[dtype],
            markerfacecolor="none" if inside else _COLOURS[dtype],
            linestyle=":" if inside else "-",
            linewidth=0.7,
            elinewidth=0.6,
        )
    for height in (_FLOOR, _GOAL):
        panel.axhline(height, color=style.GREY, linewidth=0.7, linestyle="--")
    panel.axhline(1, color=style.GREY, linewidth=0.9)


def _legend(figure: Figure, dtypes: list[str]) -> None:
    handles = [Line2D([], [], color=_COLOURS[name], marker=_MARKERS[name], label=name) for name in dtypes]
    handles += [
        Line2D(
            [], [], color=style.GREY, marker="o", markerfacecolor="none", linestyle=":", label="in the cache"
        ),
        _panels.guide("floor, goal"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=min(6, len(handles)))

"""What spells of the machine do to the kernel and to its roof, against a loop in the first-level cache."""

from dataclasses import replace

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from layernorm_backward.figures import _panels, style
from layernorm_backward.figures.style import Look

TABLES = ("spells",)
CAPTION = (
    "Spells of the machine. Horizontal axis: the time of a loop in the first-level cache over its minimum, "
    "which sorts the repetitions into bands; each point is at the median of its band. At the left the core "
    "was free. Top: the fraction of the roof that `numba_fused` reaches in the repetitions of a band, with "
    "interval. Bottom: the times of the kernel (filled) and of its roof (open) over their minimum. Backward, "
    "float32, beyond the cache."
)
CENTRE = {
    "kernel": "numba_fused",
    "direction": "backward",
    "dtype": "float32",
    "residency": "memory",
}


def draw(spells: pd.DataFrame) -> Figure:
    """One column of panels per number of threads, one line per hidden size."""
    rows = _panels.centre(_panels.measured(spells, "roof_fraction"), CENTRE)
    rows = rows[rows["band"] > 0]
    if rows.empty:
        return _panels.empty(spells, "Spells of the machine")
    counts = _panels.fewest_and_most(rows["threads"])
    looks = _panels.by_size(rows["hidden"])
    figure, axes = _panels.grid(2, len(counts), 3.9, sharex="col", sharey="row")
    for column, count in enumerate(counts):
        part = rows[rows["threads"] == count]
        _fractions(axes[0, column], part, looks)
        _slowdowns(axes[1, column], part, looks)
        _panels.subject(axes[0, column], _panels.threads(count))
        axes[1, column].set_xlabel("loop in the first-level cache: time over its minimum")
    axes[0, 0].set_ylabel("fraction of the roof", labelpad=8)
    axes[0, 0].set_ylim(0, max(1.05, 1.04 * rows["roof_fraction_high"].max()))
    axes[1, 0].set_ylabel("time over its minimum", labelpad=8)
    _legend(figure, looks)
    _panels.note(figure, _panels.others(rows, CENTRE))
    return figure


def _fractions(panel: Axes, rows: pd.DataFrame, looks: dict[int, Look]) -> None:
    panel.axhline(1, color=style.GREY, linewidth=0.9)
    for size, look in looks.items():
        part = rows[rows["hidden"] == size].sort_values("band")
        _panels.ratios(panel, part["update_slowdown"], part, "roof_fraction", **look.curve)


def _slowdowns(panel: Axes, rows: pd.DataFrame, looks: dict[int, Look]) -> None:
    for size, look in looks.items():
        part = rows[rows["hidden"] == size].sort_values("band")
        panel.plot(part["update_slowdown"], part["kernel_slowdown"], **look.curve)
        panel.plot(
            part["update_slowdown"], part["roof_slowdown"], **replace(look, line=":", fill="none").curve
        )


def _legend(figure: Figure, looks: dict[int, Look]) -> None:
    handles = [Line2D([], [], label=f"$D = {size}$", **look.curve) for size, look in looks.items()]
    plain = {"color": style.GREY, "marker": "o", "linewidth": 0.9}
    handles.append(Line2D([], [], label="kernel", **plain))
    handles.append(Line2D([], [], label="roof", markerfacecolor="none", linestyle=":", **plain))
    figure.legend(handles=handles, loc="outside upper center", ncols=min(6, len(handles)))

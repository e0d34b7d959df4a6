"""The fraction of the memory roof that the fused kernel reaches, against the hidden size."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator

from layernorm_backward.figures import _panels, style

TABLES = ("timing_cpu",)
CAPTION = (
    "Fraction of the roof that `numba_fused`, with gamma in the dtype of x, reaches (with interval) against "
    "the hidden size, with all threads and with one. The arrays are four times the last-level cache (filled, "
    "lines) or fit in it (open, dotted). Small points without a line: $D$ is no power of two; where it is "
    "one more or one less than a power of two, they are shifted to that side, and the dtypes a little "
    "against each other. Floors and goals of float32 and float64 are for arrays beyond the cache; 1 is the "
    "roof: the copy, the triad, or both in turn."
)
GOALS = {"forward": (0.95, 0.95), "backward": (0.95, 0.90), "both": (None, None)}  # all threads, one
FLOORS = {  # all threads, one: from D, to D, floor
    "forward": (((1, 10**9, 0.88),), ((1, 10**9, 0.88),)),
    "backward": (((256, 1024, 0.88), (4096, 16384, 0.80)), ((256, 1024, 0.75), (4096, 16384, 0.70))),
    "both": ((), ()),
}
_KERNEL = "numba_fused"
_COLOURS = {"float64": "#000000", "float32": "#0072B2", "float16": "#D55E00", "bfloat16": "#009E73"}
_MARKERS = {"float64": "o", "float32": "s", "float16": "^", "bfloat16": "D"}
_GOAL = {"color": style.GREY, "linewidth": 0.9, "linestyle": (0, (1, 1.5))}
_FLOOR = {"color": "#CC79A7", "linewidth": 1.5, "linestyle": (0, (3, 0.8))}
_ASIDE, _BESIDE = 0.24, 0.09  # powers of two from a D that is one to one more or less, and between dtypes


def draw(timing_cpu: pd.DataFrame) -> Figure:
    """One panel per direction and thread count, one line per dtype."""
    rows = _rows(_panels.measured(timing_cpu, "roof_fraction"))
    if rows.empty:
        return _panels.empty(timing_cpu, "Fraction of the roof")
    shown = _shown(rows)
    rows = rows[[pair in shown for pair in zip(rows["direction"], rows["threads"], strict=True)]]
    lines = (len(shown) + 1) // 2
    figure, axes = _panels.grid(lines, min(2, len(shown)), 0.8 + 1.6 * lines, sharex=True, sharey=True)
    for spare in axes.flat[len(shown) :]:
        figure.delaxes(spare)
    for panel, (direction, count) in zip(axes.flat, shown, strict=False):
        panel.set_xscale("log", base=2)
        _curves(panel, rows[(rows["threads"] == count) & (rows["direction"] == direction)])
        _panels.subject(panel, f"{direction}, {_panels.threads(count)}")
        panel.set_xlabel("hidden size $D$")
        panel.label_outer()
    limits = axes[0, 0].get_xlim()
    axes[0, 0].xaxis.set_major_locator(FixedLocator([4**power for power in range(3, 9)]))
    for panel, (direction, count) in zip(axes.flat, shown, strict=False):
        _guides(panel, direction, int(count == 1), limits)
    for panel in axes[:, 0]:
        panel.set_ylabel("fraction of the roof", labelpad=6)
    axes[0, 0].set_ylim(0, max(1.05, 1.04 * rows[["roof_fraction", "roof_fraction_high"]].max(axis=None)))
    _legend(figure, _panels.dtypes(rows["dtype"]))
    return figure


def _shown(rows: pd.DataFrame) -> list[tuple[str, int]]:
    """Directions and thread counts that were measured, of those that floors and goals are for, and both."""
    most, least = rows["threads"].max(), rows["threads"].min()
    wanted = (("backward", most), ("forward", most), ("backward", least), ("both", most))
    found = set(zip(rows["direction"], rows["threads"], strict=True))
    return [one for one in dict.fromkeys(wanted) if one in found] or [max(found)]


def most_threads(rows: pd.DataFrame) -> pd.DataFrame:
    """Of each kernel and cell the row with the most threads, gamma in the dtype of x."""
    rows = rows[rows["gamma_dtype"] == rows["dtype"]]
    cells = rows.groupby(["kernel", "direction", "dtype", "shape"])["threads"]
    return rows[rows["threads"] == cells.transform("max")] if len(rows) else rows


def _rows(rows: pd.DataFrame) -> pd.DataFrame:
    """numba_fused, gamma in the dtype of x, at the shapes that were chosen by their working set: those at
    which not all the kernels were timed."""
    several = rows.groupby("shape")["kernel"].nunique()
    rows = rows[(rows["gamma_dtype"] == rows["dtype"]) & (rows["residency"] != "partly")]
    if _KERNEL not in set(rows["kernel"]):
        return rows
    rows = rows[rows["kernel"] == _KERNEL]
    chosen = rows[rows["shape"].map(several) < several.max()]
    return rows if chosen.empty else chosen


def _curves(panel: Axes, rows: pd.DataFrame) -> None:
    """Per dtype and residency a line through the powers of two, and the other sizes as points."""
    for (dtype, where), part in rows.groupby(["dtype", "residency"]):
        part = part.sort_values("hidden").drop_duplicates("hidden")
        power = (part["hidden"] & (part["hidden"] - 1)) == 0
        inside = where == "cache"
        _points(panel, part[power], dtype, inside, ":" if inside else "-")
        _points(panel, _aside(part[~power], dtype), dtype, inside, "none")


def _aside(part: pd.DataFrame, dtype: str) -> pd.DataFrame:
    """The rows, with D moved away from a power of two that it is one more or less than."""
    hidden = part["hidden"].to_numpy(float)
    power = 2 ** np.round(np.log2(hidden))
    near, far = np.abs(hidden - power) == 1, _ASIDE + _BESIDE * list(_COLOURS).index(dtype)
    return part.assign(hidden=np.where(near, power * 2 ** (far * np.sign(hidden - power)), hidden))


def _points(panel: Axes, part: pd.DataFrame, dtype: str, inside: bool, line: str) -> None:
    _panels.ratios(
        panel,
        part["hidden"],
        part,
        "roof_fraction",
        color=_COLOURS[dtype],
        marker=_MARKERS[dtype],
        markersize=3.4 if line != "none" else 2.6,
        markerfacecolor="none" if inside else _COLOURS[dtype],
        linestyle=line,
        linewidth=0.7,
    )


def _guides(panel: Axes, direction: str, one: int, limits: tuple[float, float]) -> None:
    """The roof, the goal, and above the curves the floors over the sizes that they are for."""
    panel.axhline(1, color=style.GREY, linewidth=0.9)
    goal = GOALS[direction][one]
    if goal:
        panel.axhline(goal, **_GOAL)
    for start, end, floor in FLOORS[direction][one]:
        ends = max(start, limits[0]), min(end, limits[1])
        panel.plot(ends, (floor, floor), zorder=3, **_FLOOR)
    panel.set_xlim(limits)


def _legend(figure: Figure, dtypes: list[str]) -> None:
    handles = [Line2D([], [], color=_COLOURS[name], marker=_MARKERS[name], label=name) for name in dtypes]
    open_marker = {"marker": "o", "markerfacecolor": "none", "linestyle": ":"}
    handles.append(Line2D([], [], color=style.GREY, label="in the cache", **open_marker))
    handles += [Line2D([], [], label=label, **look) for label, look in (("floor", _FLOOR), ("goal", _GOAL))]
    figure.legend(handles=handles, loc="outside upper center", ncols=min(7, len(handles)))

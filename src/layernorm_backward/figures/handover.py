"""What roof, kernel and stores reach against the latency between the cores of the threads."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from layernorm_backward.figures import _panels, style
from layernorm_backward.figures.style import Look

TABLES = ("handover",)
CAPTION = (
    "Near and far cores. Horizontal axis: the latency from core to core, which sorts the repetitions into "
    "bands; each point is at the median of its band; dashed: the borders of the bands. (a) Bytes per second "
    "of `numba_fused` (filled) and of its roof (open), beyond the cache; (b) the fraction of that roof, with "
    "interval; (c) time with ordinary stores over time with non-temporal ones, the result read next, by the "
    "bytes of the arrays of the pass, {hidden}. Backward, float32, all threads."
)
CENTRE = {"direction": "backward", "dtype": "float32"}
_BY_BYTES = (
    Look("#009E73", "v", fill="none"),
    Look("#009E73", "v"),
    Look("#8C5A00", "P", fill="none", size=4.4),
    Look("#8C5A00", "P", size=4.4),
)


def draw(handover: pd.DataFrame) -> Figure:
    """Three panels; one line per hidden size in the first two, each size of the arrays in the third."""
    rows, stores = _rows(handover), captioned(handover)
    if rows.empty:
        return _panels.empty(handover, "Near and far cores")
    beyond, looks = rows[rows["residency"] == "memory"], _panels.by_size(rows["hidden"])
    sizes = dict(zip(sorted(set(stores["bytes"])), _BY_BYTES, strict=False))
    figure, axes = _panels.grid(1, 3, 2.9, sharex=True)
    _rates(axes[0, 0], beyond, looks)
    _ratios(axes[0, 1], beyond, "roof_fraction", "hidden", looks)
    axes[0, 1].set_ylabel("fraction of the roof")
    _ratios(axes[0, 2], stores, "stores_ratio", "bytes", sizes)
    axes[0, 2].set_ylabel("time, ordinary over non-temporal")
    _across(axes.flat, rows["latency_ns"], _borders(rows))
    figure.legend(handles=_handles(looks, sizes), loc="outside upper center", ncols=5)
    _panels.note(figure, _panels.others(rows, CENTRE))
    return figure


def captioned(handover: pd.DataFrame) -> pd.DataFrame:
    """The rows of the third panel, at one D, which the caption names."""
    return _panels.at_one_size(_rows(handover))


def _rows(handover: pd.DataFrame) -> pd.DataFrame:
    """The rows of near and of far cores, with all threads."""
    rows = _panels.centre(_panels.measured(handover, "roof_fraction"), CENTRE)
    return rows[(rows["band"] > 0) & (rows["threads"] == rows["threads"].max())].sort_values("latency_ns")


def _borders(rows: pd.DataFrame) -> list[float]:
    """The latencies at which one band ends and another begins."""
    ends = {*rows["latency_from_ns"], *rows["latency_below_ns"]}
    return sorted(end for end in ends if 0 < end < np.inf)


def _across(panels: Iterable[Axes], latencies: pd.Series, borders: list[float]) -> None:
    """A linear axis over all latencies and borders, and a thin line at each border."""
    low, high = min([*latencies, *borders]), max([*latencies, *borders])
    for panel in panels:
        for border in borders:
            panel.axvline(border, color=style.GREY, linestyle="--", linewidth=0.7, zorder=1)
        panel.set_xlim(max(0, low - 0.1 * high), 1.1 * high)
        panel.set_xlabel("core to core in ns")


def _rates(panel: Axes, rows: pd.DataFrame, looks: dict[int, Look]) -> None:
    _panels.unmeasured(panel, rows)
    rows = rows.assign(roof=rows["roof_gb_per_s"], kernel=rows["roof_gb_per_s"] * rows["roof_fraction"])
    for size, look in looks.items():
        part = rows[rows["hidden"] == size]
        panel.plot(part["latency_ns"], part["roof"], **_joined(replace(look, line=":", fill="none"), part))
        panel.plot(part["latency_ns"], part["kernel"], **_joined(look, part))
    panel.set_ylim(0, 1.05 * max(1, rows[["roof", "kernel"]].max(axis=None)))
    panel.set_ylabel("GB/s")


def _joined(look: Look, part: pd.DataFrame) -> dict[str, Any]:
    """A curve if there are three bands or more, else points."""
    return look.curve if len(part) > 2 else look.point


def _ratios(panel: Axes, rows: pd.DataFrame, column: str, by: str, looks: dict[int, Look]) -> None:
    """A line with intervals for each value of the column `by`, and a guide at 1."""
    _panels.unmeasured(panel, rows)
    panel.axhline(1, color=style.GREY, linewidth=0.9)
    for size, look in looks.items():
        part = rows[rows[by] == size]
        _panels.ratios(panel, part["latency_ns"], part, column, **_joined(look, part))
    panel.set_ylim(0, 1.05 * max(1, rows[f"{column}_high"].max()))


def _handles(looks: dict[int, Look], sizes: dict[int, Look]) -> list[Line2D]:
    by_size = [Line2D([], [], label=f"$D = {size}$", **look.curve) for size, look in looks.items()]
    roof = Line2D([], [], label="roof", **Look(style.GREY, "o", ":", "none").curve)
    by_bytes = [Line2D([], [], label=f"{size / 1e6:.0f} MB", **look.curve) for size, look in sizes.items()]
    return [*by_size, roof, *by_bytes]

"""The fused CUDA kernel over a grid of N and D: its fraction of the roof, and the fastest peer's time."""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from layernorm_backward.figures import _gpu, _panels, style

TABLES = ("timing_gpu",)
CAPTION = (
    "`cuda_fused` on a GPU by rows $N$ and hidden size $D$, backward pass, float32: (a) fraction of the "
    "roof; (b) time of the fastest peer, whose marker is below, over ours, above 1 (blue) where ours is "
    "faster. An asterisk marks a working set under four times the L2 cache, which is filled with other data "
    "before each pass. Hatched: not measured."
)
KERNEL = "cuda_fused"
_BLUE = LinearSegmentedColormap.from_list("blue", ["#FFFFFF", "#0072B2"])
_BOTH = LinearSegmentedColormap.from_list("both", ["#D55E00", "#FFFFFF", "#0072B2"])
_FRACTION, _RATIO = Normalize(0, 1, clip=True), LogNorm(1 / 2, 2, clip=True)
_EDGE = "#B0B0B0"
_ROW = 0.33  # inches
Cells = dict[tuple[int, int], dict[str, Any]]


def draw(timing_gpu: pd.DataFrame) -> Figure:
    """Left the fraction of the roof, right the ratio of times; rows are N, columns D."""
    table = _one_pass(timing_gpu)
    rows = _panels.measured(table, "roof_fraction")
    ours, peers = rows[rows["kernel"] == KERNEL], rows[~rows["kernel"].isin(_gpu.OURS)]
    if ours.empty:
        return _panels.empty(timing_gpu[timing_gpu["kernel"] == KERNEL], "Fraction of the roof on a GPU")
    lines, columns = _sides(ours)
    here = peers["rows"].isin(lines) & peers["hidden"].isin(columns)
    fastest = peers[here].dropna(subset=["ours_ratio"]).sort_values("ours_ratio", kind="stable")
    fastest = fastest.drop_duplicates(["rows", "hidden"])
    figure, axes = _panels.grid(1, 2, 1.0 + _ROW * max(4, len(lines)), sharey=True)
    _panel(axes[0, 0], lines, columns, _cells(ours, "roof_fraction"), (_BLUE, _FRACTION))
    _panel(axes[0, 1], lines, columns, _cells(fastest, "ours_ratio"), (_BOTH, _RATIO))
    way, dtype = ours[["direction", "dtype"]].iloc[0]
    _panels.subject(axes[0, 0], f"fraction of the roof ({way}, {dtype})")
    _panels.subject(axes[0, 1], "time of the fastest peer / ours")
    axes[0, 0].set_ylabel("rows $N$")
    hatch = Patch(label="not measured", **style.HATCH)
    _panels.legend(figure, fastest["kernel"], hatch, line=False)
    _panels.note(figure, _panels.absent(table[~table["kernel"].isin(_gpu.OURS)], peers))
    return figure


def _one_pass(table: pd.DataFrame) -> pd.DataFrame:
    """The backward pass in float32, gamma too; where ours has no such row, the pass and dtype it has."""
    rows = table[table["gamma_dtype"] == table["dtype"]]
    ours = _panels.measured(rows[rows["kernel"] == KERNEL], "roof_fraction")
    for column, wanted in (("direction", "backward"), ("dtype", "float32")):
        found = list(dict.fromkeys(ours[column]))
        value = wanted if wanted in found or not found else found[0]
        rows, ours = rows[rows[column] == value], ours[ours[column] == value]
    return rows


def _sides(rows: pd.DataFrame) -> tuple[list[int], list[int]]:
    """N and D of the grid: those that meet at least half as many of the others as any does."""
    for one, other in (("rows", "hidden"), ("hidden", "rows")):
        met = rows.groupby(one)[other].nunique()
        rows = rows[rows[one].isin(met.index[met >= met.max() / 2])]
    return sorted(set(rows["rows"])), sorted(set(rows["hidden"]))


def _cells(rows: pd.DataFrame, column: str) -> Cells:
    found = rows.assign(value=rows[column]).to_dict("records")
    return {(row["rows"], row["hidden"]): row for row in found}


def _panel(panel: Axes, lines: list[int], columns: list[int], cells: Cells, shade: tuple[Any, Any]) -> None:
    panel.grid(False)
    panel.set_xlim(-0.5, len(columns) - 0.5)
    panel.set_ylim(len(lines) - 0.5, -0.5)
    panel.set_xticks(range(len(columns)), columns)
    panel.set_yticks(range(len(lines)), lines)
    panel.tick_params(length=0)
    panel.set_xlabel("hidden size $D$")
    colours, scale = shade
    for (y, count), (x, hidden) in product(enumerate(lines), enumerate(columns)):
        cell = cells.get((count, hidden))
        look = style.HATCH if cell is None else {"facecolor": colours(scale(cell["value"]))}
        edge = {"edgecolor": _EDGE, "linewidth": 0.3}
        panel.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, **edge | look))
        if cell is not None:
            _write(panel, x, y, cell, look["facecolor"])


def _write(panel: Axes, x: int, y: int, cell: dict[str, Any], colour: Any) -> None:
    """The number, and the marker of a peer below it."""
    peer = cell["kernel"] != KERNEL
    text = f"{cell['value']:.2f}" + "*" * (cell["residency"] != "memory")
    ink = "white" if np.dot(to_rgb(colour), (0.3, 0.59, 0.11)) < 0.5 else "black"
    height = y - 0.18 if peer else y
    panel.text(x, height, text, ha="center", va="center_baseline", fontsize=style.SMALL, color=ink)
    if peer:
        panel.plot([x], [y + 0.23], "o", color="white", markersize=7)
        panel.plot([x], [y + 0.23], **style.look(cell["kernel"]).point)

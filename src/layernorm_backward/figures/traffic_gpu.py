"""The bytes between a GPU and its memory, counted and by the model, over the fewest that will do, by D."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator

from layernorm_backward.figures import _gpu, _panels, style

TABLES = ("traffic_gpu",)
CAPTION = (
    "Bytes moved between a GPU and its memory over the fewest possible (grey line), by hidden size, kernel "
    "and peer. Markers: counted by Nsight Compute, the caches emptied before each kernel of a pass. "
    "Horizontal bar, the model: the bytes that our kernels should move, partial sums included. Where all "
    "were counted at one $D$, it is given below the kernels' names."
)
_WIDTH = 0.7  # of the room of a D, for all kernels
_BAR = {"marker": "_", "markersize": 8, "markeredgewidth": 1.6, "linestyle": "none"}
_BORDER = {"color": "#D8D8D8", "linewidth": 0.4}
_TICKS = (0.5, 1, 1.5, 2, 3, 5)  # of a short axis


def draw(traffic_gpu: pd.DataFrame) -> Figure:
    """Rows are directions, columns dtypes; along the horizontal axis a D has room for every kernel."""
    counted = _over_fewest(_panels.measured(traffic_gpu), "measured_bytes")
    modelled = _over_fewest(traffic_gpu, "modelled_bytes")
    rows = pd.concat([counted, modelled])
    if rows.empty:
        return _panels.empty(traffic_gpu, "Bytes moved on a GPU")
    dtypes = _gpu.dtypes(rows)
    rows = rows[rows["dtype"].isin(dtypes)]
    figure, parts = _gpu.panels(rows, "bytes / fewest", 0.9, 1.2)
    for panel, part in parts:
        _panel(panel, part, sorted(set(rows["hidden"])), style.ordered(rows["kernel"]))
    _ticks(parts[0][0], rows["ratio"])
    bar = Line2D([], [], color=style.GREY, label="model", **_BAR)
    more = [bar] if len(modelled) else []
    _panels.legend(figure, rows["kernel"], *more, line=False)
    _panels.note(figure, _uncounted(traffic_gpu, counted))
    return figure


def _over_fewest(table: pd.DataFrame, column: str) -> pd.DataFrame:
    rows = table.dropna(subset=[column, "minimum_bytes"])
    return rows.assign(ratio=rows[column] / rows["minimum_bytes"], counted=column == "measured_bytes")


def _panel(panel: Axes, rows: pd.DataFrame, sizes: list[int], kernels: list[str]) -> None:
    panel.axhline(1, color=style.GREY, linewidth=0.9)
    panel.set_yscale("log")
    if len(sizes) > 1:
        panel.set_xticks(range(len(sizes)), sizes)
    else:
        panel.set_xticks([_at(number, len(kernels)) for number in range(len(kernels))], kernels)
        panel.tick_params(axis="x", labelsize=style.SMALL, labelrotation=20)
        panel.set_xlabel(panel.get_xlabel() and f"$D = {sizes[0]}$")
    panel.set_xlim(-0.5, len(sizes) - 0.5)
    panel.grid(False, axis="x")
    for border in range(1, len(sizes)):
        panel.axvline(border - 0.5, **_BORDER)
    for number, name in enumerate(kernels):
        part = rows[rows["kernel"] == name]
        at = part["hidden"].map(sizes.index) + _at(number, len(kernels))
        looks = style.look(name).point, {"color": style.look(name).colour, **_BAR}
        for seen, look in zip((part["counted"], ~part["counted"]), looks, strict=True):
            panel.plot(at[seen], part["ratio"][seen], **look)


def _at(number: int, count: int) -> float:
    """Where a kernel stands in the room of its D."""
    return _WIDTH * ((number + 0.5) / count - 0.5)


def _ticks(panel: Axes, ratios: pd.Series) -> None:
    low, high = 0.85 * min(1, ratios.min()), 1.15 * max(2, ratios.max())
    panel.set_ylim(low, high)
    _panels.powers(panel.yaxis)
    if high < 10 * low:
        panel.yaxis.set_major_locator(FixedLocator(_TICKS))


def _uncounted(table: pd.DataFrame, counted: pd.DataFrame) -> str:
    if counted.empty:
        why = _panels.reasons(table)[0]
        return f"Bars are what the kernel is written to move. Bytes were not measured: {why}."
    left = len(table) - len(counted)
    more = f" Cells not counted: {left} of {len(table)}, each with its reason in the table." if left else ""
    return (_panels.absent(table, counted) + more).strip()

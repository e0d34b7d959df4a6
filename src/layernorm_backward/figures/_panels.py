"""Shared by all figures: lettered panels, axes with powers of ten, the legend, intervals, empty figures."""

from collections import Counter
from collections.abc import Iterable, Sequence
from textwrap import fill, shorten
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from layernorm_backward.dtypes import DTYPE_NAMES
from layernorm_backward.figures import style
from layernorm_backward.figures.style import Look

_LINE, _NOTE = 100, 142  # characters of a line of text, and of a note
_MEASURED = 1.04  # text at the figure's own resolution, over that in the files
_COLOURS = ("#56B4E9", "#0072B2", "#000000", "#E69F00", "#D55E00", "#CC79A7")
HIDDEN = 1024  # the preferred size of a figure that shows one
BY_SIZE = [Look(colour, marker) for colour, marker in zip(_COLOURS, "os^DvP", strict=True)]


def grid(rows: int, columns: int, height: float, **options: Any) -> tuple[Figure, np.ndarray]:
    """A figure as wide as the text and `height` inches high with (rows, columns) lettered panels."""
    figure = Figure(figsize=(style.TEXT_WIDTH, height))
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    if axes.size > 1:
        for number, panel in enumerate(axes.flat):
            letter(panel, number)
    return figure, axes


def letter(panel: Axes, number: int) -> None:
    """Write (a), (b), ... at the left above a panel; `subject` writes beside it."""
    panel.set_title(f"({chr(ord('a') + number)})", loc="left", fontweight="bold")


def subject(panel: Axes, text: str) -> None:
    """Write above a panel what it shows."""
    panel.set_title(text, loc="center")


def powers(axis: Axis, most: int = 6) -> None:
    """Ticks of a logarithmic axis at powers of ten, `most` of them; on a short axis at 1, 2, 5."""
    low, high = axis.get_view_interval()
    axis.set_minor_locator(NullLocator())
    if high / low >= 100:
        axis.set_major_locator(LogLocator(numticks=most))
    else:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def legend(figure: Figure, names: Iterable[str], *more: Artist, line: bool = True, columns: int = 5) -> None:
    """One legend above all panels: every name once, in the order of the style, then `more`.

    It has `columns`, or as many fewer as long names leave room for.
    """
    looks = [(name, style.look(name)) for name in style.ordered(names)]
    named = ((style.MATH.get(name, name), look.curve if line else look.point) for name, look in looks)
    handles = [Line2D([], [], label=label, **options) for label, options in named]
    handles += more
    for count in range(min(columns, len(handles)), 0, -1):
        made = figure.legend(handles=handles, loc="outside upper center", ncols=count)
        if count == 1 or made.get_window_extent().width <= _MEASURED * figure.bbox.width:
            break
        made.remove()


def guide(label: str, line: Any = "--") -> Line2D:
    """The legend's entry of a guide: a bound, a prediction, a roof."""
    return Line2D([], [], color=style.GREY, linestyle=line, linewidth=0.9, label=label)


def beyond(panel: Axes, reached: float, configured: Iterable[float]) -> None:
    """Hatch the kappas in the config that no row of the dtype has, up to the edge of the panel."""
    further = [value for value in configured if value > reached]
    if further:
        right = panel.get_xlim()[1]
        panel.axvspan(np.sqrt(reached * min(further)), right, **style.HATCH)
        panel.set_xlim(right=right)


def no_rows() -> Patch:
    """The legend's entry of the hatching."""
    return Patch(label="no such rows", **style.HATCH)


def unmeasured(panel: Axes, rows: pd.DataFrame) -> None:
    """Write "not measured" into a panel that has no rows to show."""
    if rows.empty:
        options = {"transform": panel.transAxes, "ha": "center", "va": "center", "color": style.GREY}
        told = panel.text(0.5, 0.5, "not measured", **options)
        told.set_bbox({"facecolor": "white", "linewidth": 0, "pad": 0.6})


def measured(table: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """The rows without a reason that hold a number in each of `columns`."""
    return table[table["reason"] == ""].dropna(subset=list(columns))


def dtypes(names: Iterable[str]) -> list[str]:
    """The dtypes in `names`, widest first."""
    present = set(names)
    return [name for name in DTYPE_NAMES if name in present]


def centre(rows: pd.DataFrame, wanted: dict[str, str]) -> pd.DataFrame:
    """The rows with the values of a caption, column -> value; if there are none, with the first values."""
    for column, value in wanted.items():
        if len(rows):
            there = value if value in set(rows[column]) else rows[column].iloc[0]
            rows = rows[rows[column] == there]
    return rows


def others(rows: pd.DataFrame, wanted: dict[str, str]) -> str:
    """A note on the values that `centre` shows instead of those in the caption; "" for the same values."""
    found = {column: rows[column].iloc[0] for column in wanted}
    other = [f"{column} {value}" for column, value in found.items() if value != wanted[column]]
    return f"Shown here: {', '.join(other)}." if other else ""


def nearest(values: Iterable[int], wanted: int) -> int:
    """The value nearest to `wanted` on a logarithmic scale; the smaller of two."""
    return min(sorted(set(values)), key=lambda value: abs(np.log(value / wanted)))


def octaves_off(rows: pd.DataFrame) -> pd.Series:
    """The distance of the hidden size of each row from HIDDEN, in octaves."""
    return np.abs(np.log2(rows["hidden"].astype(float) / HIDDEN))


def at_one_size(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows at the hidden size nearest to HIDDEN; none if there are no rows."""
    return rows[rows["hidden"] == nearest(rows["hidden"], HIDDEN)] if len(rows) else rows


def fewest_and_most(threads: Iterable[int]) -> list[int]:
    """The minimum and maximum number of threads, or the only one."""
    counts = sorted(set(threads))
    return counts[:: max(1, len(counts) - 1)]


def threads(count: int) -> str:
    """A number of threads in words."""
    return f"{count} thread{'s' if count > 1 else ''}"


def by_size(sizes: Iterable[int], looks: Sequence[Look] = BY_SIZE) -> dict[int, Look]:
    """A look for each hidden size, or for as many as there are looks, from the smallest to the largest."""
    found = sorted(set(sizes))
    chosen = np.unique(np.linspace(0, len(found) - 1, min(len(found), len(looks))).astype(int))
    return dict(zip((found[index] for index in chosen), looks, strict=False))


def curves(panel: Axes, table: pd.DataFrame, x: str, y: str, by: str, **options: Any) -> None:
    """One line with markers for each name in the column `by`."""
    for name in style.ordered(table[by]):
        part = table[table[by] == name].sort_values(x)
        panel.plot(part[x], part[y], **style.look(name).curve, **options)


def intervals(
    panel: Axes, x: Any, y: Any, low: Any, high: Any, *, across: bool = False, **options: Any
) -> None:
    """Points, or a curve, with their intervals [low, high] along y, or along x (`across`).

    Bars of zero length are not drawn: Matplotlib converts the limits of bars to display coordinates and back,
    where rounding may make two values of one.
    """
    value = np.asarray(x if across else y, dtype=float)
    reach = np.maximum(np.stack([value - np.asarray(low, float), np.asarray(high, float) - value]), 0)
    reach = np.nan_to_num(reach)
    side = {"xerr" if across else "yerr": reach} if reach.any() else {}
    panel.errorbar(x, y, **side, **options, elinewidth=0.7)


def ratios(panel: Axes, x: Any, rows: pd.DataFrame, column: str, **options: Any) -> None:
    """A curve of a column with the intervals in its columns _low and _high, as from stopwatch.ratio."""
    intervals(panel, x, rows[column], rows[f"{column}_low"], rows[f"{column}_high"], **options)


def size(shape: str) -> tuple[int, ...]:
    """A sort key of shapes written 4x8x16: elements, then hidden size."""
    sides = [int(side) for side in shape.split("x")]
    return int(np.prod(sides)), sides[-1]


def times(shape: str) -> str:
    """A shape written 4x8x16 as a label, with multiplication signs."""
    return shape.replace("x", "\N{MULTIPLICATION SIGN}")


def empty(table: pd.DataFrame, what: str) -> Figure:
    """A figure with the reasons in the table why nothing was measured."""
    why = [fill(reason, _LINE) for reason in reasons(table)[:4]]
    text = "\n".join([f"{what}: not measured.", *why])
    figure = Figure(figsize=(style.TEXT_WIDTH, 0.3 + 0.17 * (text.count("\n") + 1)))
    figure.text(0.5, 0.5, text, ha="center", va="center")
    return figure


def reasons(table: pd.DataFrame) -> list[str]:
    """Why rows of a table were not measured, the most common reason first; never empty."""
    found = Counter(reason.removeprefix("not measured: ") for reason in table["reason"] if reason)
    return [reason for reason, _ in found.most_common()] or ["the table is empty"]


def absent(table: pd.DataFrame, rows: pd.DataFrame) -> str:
    """Which kernels of a table are not among `rows`, and why; empty where all are."""
    by_reason: dict[str, list[str]] = {}
    for name in style.ordered(set(table["kernel"]) - set(rows["kernel"])):
        part = table[(table["kernel"] == name) & (table["reason"] != "")]
        if len(part):
            by_reason.setdefault(shorten(reasons(part)[0], _LINE), []).append(name)
    parts = [f"{', '.join(names)} ({reason})" for reason, names in by_reason.items()]
    return f"Not measured: {'; '.join(parts)}." if parts else ""


def note(figure: Figure, *sentences: str) -> None:
    """Write notes on these tables below all panels; the figure grows by their lines."""
    said = "\n".join(fill(sentence, _NOTE) for sentence in sentences if sentence)
    if said:
        figure.supxlabel(said, fontsize=style.SMALL)
        lines = 1 + said.count("\n")
        figure.set_figheight(figure.get_figheight() + 0.09 + 1.25 * lines * style.SMALL / 72)

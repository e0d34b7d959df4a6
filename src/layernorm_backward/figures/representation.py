"""What a row with an offset loses by being stored, and what each variance algorithm adds to that."""

from collections.abc import Callable, Iterator

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from layernorm_backward.figures import _panels, style
from layernorm_backward.figures.variance import HIDDEN

TABLES = ("variance",)
CAPTION = (
    "(a) Distinct values left of the row of five integers after an offset is added ($\\infty$: overflow); "
    "(b) $\\log_{10}$ of the error that rounding a Gaussian row makes in its variance; (c) to (f) "
    "$\\log_{10}$ of the error that each algorithm adds (a dash: none), bold where larger than in (b). "
    "Hatched: some row comes out constant or overflows, so there is nothing to test."
)
_ALGORITHMS = ("naive", "welford", "two_pass", "two_pass_corrected")  # one of each growth
_DIGITS = 16  # the palest colour is an error of 1e-16, the darkest one of 1
Block = tuple[str, pd.DataFrame, str, str, Callable[[float], str]]


def draw(variance: pd.DataFrame) -> Figure:
    """Columns are offsets; numbers distinct values or log10 of an error; hatched rows cannot be stored."""
    blocks = list(_blocks(_widest_sums(variance)))
    if not blocks or (variance["reason"] != "").all():
        return _panels.empty(variance, "What can be represented at which offset")
    offsets = sorted(set(variance["offset"]))
    heights = [rows[index].nunique() for _, rows, index, _, _ in blocks]
    height = 0.5 + 0.2 * len(blocks) + 0.115 * sum(heights)
    figure, axes = _panels.grid(len(blocks), 1, height, height_ratios=heights, sharex=True)
    for panel, block in zip(axes.flat, blocks, strict=True):
        _map(panel, block, offsets)
    panel.set_xlim(-0.5, len(offsets) - 0.5)
    panel.set_xticks(range(len(offsets)), [_power(offset) for offset in offsets])
    panel.set_xlabel("offset added to the row, in standard deviations")
    return figure


def _widest_sums(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with sums in float32 where a dtype has them, else those with sums in the dtype itself."""
    wide = rows.groupby("dtype")["accumulator"].transform(lambda kept: (kept == "float32").any())
    return rows[(rows["accumulator"] == "float32") | ~wide.astype(bool)]


def _blocks(rows: pd.DataFrame) -> Iterator[Block]:
    """Title, rows, the column of the labels, the column of the numbers, how a number is written."""
    ladder, gaussian = rows[rows["data"] == "ladder"], rows[rows["data"] == "gaussian"]
    if len(ladder):
        held = ladder["distinct_values"].astype(float).mask(ladder["reason"].str.contains("overflow"), np.inf)
        yield "distinct values of offset + [0, 1, 2, 3, 4]", ladder.assign(held=held), "dtype", "held", _count
    if gaussian.empty:
        return
    gaussian = gaussian[gaussian["hidden"] == _panels.nearest(gaussian["hidden"], HIDDEN)]
    title = r"error of a Gaussian row's variance by rounding the row to the dtype, $\log_{10}$"
    yield title, gaussian, "dtype", "representation_error", _digits
    for dtype in _panels.dtypes(gaussian["dtype"]):
        part = gaussian[(gaussian["dtype"] == dtype) & gaussian["algorithm"].isin(_ALGORITHMS)]
        if len(part):
            sums = part["accumulator"].iloc[0].replace("storage", dtype)
            title = rf"error added by the algorithm, {dtype} with sums in {sums}, $\log_{{10}}$"
            yield title, part, "algorithm", "rel_error_max", _digits


def _map(panel: Axes, block: Block, offsets: list[float]) -> None:
    title, rows, index, column, write = block
    labels = _panels.dtypes(rows[index]) or [name for name in _ALGORITHMS if name in set(rows[index])]
    for cell in rows.drop_duplicates([index, "offset"]).to_dict("records"):
        x, y = offsets.index(cell["offset"]), labels.index(cell[index])
        shade = 0.0 if write is _count else _shade(cell[column])
        possible = bool(cell["representable"])
        face = matplotlib.colormaps["YlOrBr"](shade) if possible else "white"
        panel.add_patch(
            Rectangle(
                (x - 0.5, y - 0.5),
                1,
                1,
                facecolor=face,
                edgecolor=style.GREY if not possible else "white",
                hatch=None if possible else "//////",
                linewidth=0.3 if not possible else 0.6,
            )
        )
        adds = index == "algorithm" and cell[column] > cell["representation_error"]
        if possible or write is _count:
            panel.text(
                x,
                y,
                write(cell[column]),
                ha="center",
                va="center_baseline",
                fontsize=7,
                color="white" if shade > 0.6 else "black",
                fontweight="bold" if adds else "normal",
            )
    panel.set_ylim(len(labels) - 0.5, -0.5)
    panel.set_yticks(range(len(labels)), labels)
    panel.tick_params(length=0, labelsize=7.5)
    panel.grid(False)
    panel.spines[:].set_visible(False)
    panel.set_title(title, loc="center")


def _shade(error: float) -> float:
    """0 for an error of 0, 0.1 to 0.9 for 1e-16 to 1 and above."""
    if error == 0 or np.isnan(error):
        return 0.0
    return 0.1 + 0.8 * float(np.clip(1 + np.log10(min(error, 1.0)) / _DIGITS, 0, 1))


def _count(number: float) -> str:
    return "∞" if np.isinf(number) else f"{number:.0f}"


def _digits(error: float) -> str:
    if error == 0 or not np.isfinite(error):
        return "\N{EN DASH}" if error == 0 else "∞"
    return f"{np.log10(error):.0f}".replace("-0", "0").replace("-", "\N{MINUS SIGN}")


def _power(offset: float) -> str:
    return "0" if offset == 0 else f"$10^{{{np.log10(offset):.0f}}}$"

"""What a dtype holds of a row with an offset, what rounding does to dx, and what each algorithm adds."""

from collections.abc import Iterator
from typing import NamedTuple

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from layernorm_backward.dtypes import dtype_of, unit_roundoff
from layernorm_backward.figures import _panels, style

TABLES = ("representation",)
CAPTION = (
    "First line of a panel: how many of five integers are still different after an offset is added "
    "($\\infty$: overflow). Below: $\\log_{10}$ of the largest relative error of $dx$, {hidden}, $dy\\sim "
    "N(1,1)$, on Gaussian rows; in blue the effect of rounding the row to the dtype, in brown what an "
    "algorithm adds (darker: more; a dash: at most $4u$, or none; bold: more than the rounding; $\\infty$: "
    "not finite); last line: `two_pass` on rows of integers. Hatched: some row is constant or overflows."
)
_UPSTREAM = "shifted"
_WORST_FIRST = ("naive", "welford", "two_pass", "two_pass_corrected", "recentred")
_DIGITS = 16  # the palest colour is an error of 1e-16, the darkest one of 1
_LIMIT = 4  # u; no algorithm that re-centres adds more


class _Line(NamedTuple):
    """A line of the map: its label, its rows (one an offset), and the column that they show."""

    label: str
    rows: pd.DataFrame
    column: str


def draw(representation: pd.DataFrame) -> Figure:
    """One panel per dtype, with the widest sums it has; columns are offsets, lines as the caption says."""
    rows = _rows(representation)
    if rows.empty or (rows["reason"] != "").all():
        return _panels.empty(representation, "What can be represented at which offset")
    panels = {dtype: list(_lines(rows[rows["dtype"] == dtype])) for dtype in _panels.dtypes(rows["dtype"])}
    offsets = sorted(set(rows["offset"]))
    heights = [len(lines) for lines in panels.values()]
    figure, axes = _panels.grid(
        len(panels),
        1,
        0.65 + 0.2 * len(panels) + 0.113 * sum(heights),
        height_ratios=heights,
        sharex=True,
    )
    for panel, (dtype, lines) in zip(axes.flat, panels.items(), strict=True):
        _map(panel, lines, offsets, unit_roundoff(dtype_of(dtype)))
        sums = rows[rows["dtype"] == dtype]["accumulator"].iloc[0].replace("storage", dtype)
        _panels.subject(panel, f"{dtype}, sums in {sums}")
    panel.set_xlim(-0.5, len(offsets) - 0.5)
    panel.set_xticks(range(len(offsets)), [_power(offset) for offset in offsets])
    panel.set_xlabel("offset added to the row")
    figure.legend(handles=_handles(), loc="outside upper center", ncols=3)
    return figure


def _handles() -> list[Patch]:
    named = (("Blues", "what rounding the row does"), ("YlOrBr", "what the algorithm adds"))
    shades = [Patch(facecolor=matplotlib.colormaps[shade](0.5), label=label) for shade, label in named]
    return [*shades, _panels.no_rows()]


def _rows(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of dx for the upstream shown, with sums in float32 where a dtype has them, else in itself."""
    rows = table[(table["quantity"] == "dx") & (table["upstream"] == _UPSTREAM)]
    wide = rows.groupby("dtype")["accumulator"].transform(lambda kept: (kept == "float32").any())
    return rows[(rows["accumulator"] == "float32") | ~wide.astype(bool)]


def _lines(rows: pd.DataFrame) -> Iterator[_Line]:
    ladder, gaussian, integers = (rows[rows["data"] == kind] for kind in ("ladder", "gaussian", "integers"))
    if len(ladder):
        yield _Line("values left of 5", ladder.drop_duplicates("offset"), "distinct_values")
    if len(gaussian):
        yield _Line("rounding the row", gaussian.drop_duplicates("offset"), "representation_error")
    names = style.ordered(gaussian["algorithm"])
    for name in [it for it in _WORST_FIRST if it in names] + [it for it in names if it not in _WORST_FIRST]:
        yield _Line(name, gaussian[gaussian["algorithm"] == name], "error_max")
    plain = integers[integers["algorithm"] == "two_pass"]
    if len(plain):
        yield _Line("two_pass, integers", plain, "error_max")


def _map(panel: Axes, lines: list[_Line], offsets: list[float], u: float) -> None:
    for y, line in enumerate(lines):
        for cell in line.rows.to_dict("records"):
            _cell(panel, (offsets.index(cell["offset"]), y), cell, line.column, u)
    panel.set_ylim(len(lines) - 0.5, -0.5)
    panel.set_yticks(range(len(lines)), [line.label for line in lines])
    panel.tick_params(length=0, labelsize=7.5)
    panel.grid(False)
    panel.spines[:].set_visible(False)


def _cell(panel: Axes, at: tuple[int, int], cell: dict, column: str, u: float) -> None:
    """One square: hatched where nothing can be tested, else coloured by the error."""
    possible, counts, adds = bool(cell["representable"]), column == "distinct_values", column == "error_max"
    few = _LIMIT * u if adds else 0.0
    shade = _shade(cell[column], few) if possible and not counts else 0.0
    face = matplotlib.colormaps["YlOrBr" if adds else "Blues"](shade)
    looks = {"facecolor": face, "edgecolor": "white", "linewidth": 0.6} if possible else style.HATCH
    panel.add_patch(Rectangle((at[0] - 0.5, at[1] - 0.5), 1, 1, **looks))
    if not possible and not counts:
        return
    more = adds and cell[column] > max(few, cell["representation_error"])
    text = _count(cell) if counts else _digits(cell[column], few)
    dark = np.dot(face[:3], (0.3, 0.6, 0.1)) < 0.5  # grey of the cell, 1 is white
    centred = {"ha": "center", "va": "center_baseline", "fontsize": style.SMALL}
    told = panel.text(
        *at, text, color="white" if dark else "black", fontweight="bold" if more else "normal", **centred
    )
    if not possible:
        told.set_bbox({"facecolor": "white", "linewidth": 0, "pad": 0.6})


def _shade(error: float, few: float) -> float:
    """0 for an error of at most `few`, 0.1 to 0.9 for 1e-16 to 1 and above."""
    if error <= few or np.isnan(error):
        return 0.0
    return 0.1 + 0.8 * float(np.clip(1 + np.log10(min(error, 1.0)) / _DIGITS, 0, 1))


def _count(cell: dict) -> str:
    return "∞" if "overflow" in cell["reason"] else f"{cell['distinct_values']:.0f}"


def _digits(error: float, few: float) -> str:
    if error <= few or np.isnan(error):
        return "\N{EN DASH}"
    if np.isinf(error):
        return "∞"
    return f"{np.log10(error):.0f}".replace("-0", "0").replace("-", "\N{MINUS SIGN}")


def _power(offset: float) -> str:
    return "0" if offset == 0 else f"$10^{{{np.log10(offset):.0f}}}$"

"""Measured error, first-order identity and bound of the mean path against kappa, and the fitted slopes."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from layernorm_backward.dtypes import dtype_of, unit_roundoff
from layernorm_backward.figures import _panels, style

TABLES = ("mean_path", "slopes")
CAPTION = (
    "Largest error over the rows in $u$ of the dtype of $x$ against $\\kappa$, {hidden}, $dy\\sim N(1,1)$, "
    "sums in the dtype, in (e) in float32. Markers: measured, up to ten times $1/u$; solid: the identity for "
    "the $\\eta$ and $\\rho$ of the pass; dashed: bounds, which end where they are infinite; dotted: slopes "
    "1 and 2, and $1/u$, an error as large as the result. Hatched: no row of the dtype has this $\\kappa$. "
    "In (e) the rounding of the result to float16, half a $u$, hides what the identity predicts, and the "
    "algorithms coincide at first. (f), (g) Fitted slopes, with intervals from five points on: the "
    "algorithms not drawn in (a) to (e) behave like their neighbours."
)
SHOWN = ("naive", "welford", "two_pass", "recentred")  # the others grow as one of these does
_PANELS = (
    ("y", "float32", "storage"),
    ("dx", "float32", "storage"),
    ("dgamma", "float32", "storage"),
    ("dx", "float64", "storage"),
    ("dx", "float16", "float32"),
)


_QUANTITIES = ("y", "dx", "dgamma")


def draw(mean_path: pd.DataFrame, slopes: pd.DataFrame) -> Figure:
    """Three quantities in float32; dx in float64 and in float16 with float32 sums; slopes in two dtypes."""
    rows = captioned(mean_path)
    fitted = _panels.measured(slopes, "value")
    fitted = fitted[(fitted["source"] == "mean_path") & (fitted["property"] == "kappa")]
    if _panels.measured(rows, "error_u_max").empty:
        return _panels.empty(mean_path, "Error of the mean path")
    figure, axes = _axes()
    for number, (panel, (quantity, dtype, sums)) in enumerate(zip(axes, _PANELS, strict=False)):
        part = rows[(rows["quantity"] == quantity) & (rows["dtype"] == dtype) & (rows["accumulator"] == sums)]
        _panel(panel, part, dtype, sums)
        _panels.subject(panel, f"{style.MATH[quantity]}, {dtype}")
        panel.set_ylabel("error in $u$" if number % 3 == 0 else "")
        panel.set_xlabel(r"condition number $\kappa$")
    for panel, dtype in zip(axes[-2:], ("float64", "float32"), strict=True):
        _slopes(panel, fitted, dtype)
    axes[-1].tick_params(labelleft=False)
    guides = [_panels.guide(*named) for named in (("identity", "-"), ("bound",), ("slopes 1, 2", ":"))]
    names = set(_panels.measured(rows, "error_u_max")["algorithm"])
    _panels.legend(figure, names, *guides, line=False, columns=5)
    kinds = [Line2D([], [], label=style.MATH[name], **style.look(name).point) for name in _QUANTITIES]
    figure.legend(handles=kinds, loc="outside lower right", ncols=3, title="in (f), (g)")
    return figure


def _axes() -> tuple[Figure, list[Axes]]:
    """Three panels above; below two and, narrow, the two of the slopes."""
    figure = Figure(figsize=(style.TEXT_WIDTH, 4.9))
    lines = zip(figure.add_gridspec(2, 1), ((1, 1, 1), (1, 1, 0.55, 0.55)), strict=True)
    cells = [
        cell
        for line, widths in lines
        for cell in line.subgridspec(1, len(widths), width_ratios=widths, wspace=0.06)
    ]
    axes = [figure.add_subplot(cell) for cell in cells]
    for number, panel in enumerate(axes):
        _panels.letter(panel, number)
    return figure, axes


def captioned(mean_path: pd.DataFrame) -> pd.DataFrame:
    """The rows with errors, at one D, which the caption names."""
    rows = mean_path[(mean_path["data"] == "gaussian") & (mean_path["upstream"] == "shifted")]
    return _panels.at_one_size(rows[rows["algorithm"].isin(SHOWN)])


def _panel(panel: Axes, rows: pd.DataFrame, dtype: str, sums: str) -> None:
    """`rows` of one quantity; u of the dtype and of its sums set the guides."""
    panel.set_xscale("log")
    panel.set_yscale("log")
    u = unit_roundoff(dtype_of(dtype))
    measured = _panels.measured(rows, "error_u_max").sort_values("kappa")
    _limits(panel, measured["kappa"], rows["kappa"], 1 / u)
    _panels.unmeasured(panel, measured)
    _guides(panel, 1 / u, unit_roundoff(dtype_of(dtype if sums == "storage" else sums)) / u)
    for name in style.ordered(measured["algorithm"]):
        part, look = measured[measured["algorithm"] == name], style.look(name)
        for column, line in (("identity_u_max", "-"), ("bound_u", "--")):
            shown = part[np.isfinite(part[column])]
            panel.plot(shown["kappa"], shown[column], line, color=look.colour, linewidth=0.8)
        shown = part[part["error_u_max"] <= 10 / u]
        panel.plot(shown["kappa"], shown["error_u_max"], **look.point)


def _guides(panel: Axes, wrong: float, start: float) -> None:
    """Slopes 1 and 2 from the error `start` at kappa 1 up to an error as large as the result."""
    kappa = np.geomspace(*panel.get_xlim(), 100)
    for line in (start * kappa, start * kappa**2, np.full_like(kappa, wrong)):
        shown = line <= wrong
        panel.plot(kappa[shown], line[shown], color=style.GREY, linestyle=":", linewidth=0.9)


def _limits(panel: Axes, measured: pd.Series, asked: pd.Series, wrong: float) -> None:
    """Axes from what was measured, and hatching at the kappas in the config that the dtype does not have."""
    last = max(measured.max(), 10.0) if len(measured) else 10.0
    panel.set_xlim(0.7, 100 * last if (asked > last).any() else 1.4 * last)
    panel.set_ylim(0.1, 10 * wrong)
    _panels.beyond(panel, last, asked)
    _panels.powers(panel.xaxis, 5)
    _panels.powers(panel.yaxis, 5)


def _slopes(panel: Axes, slopes: pd.DataFrame, dtype: str) -> None:
    """One line per algorithm, steepest first, one marker per quantity."""
    steepest = slopes.groupby("kernel")["value"].max().round()
    names = sorted(style.ordered(slopes["kernel"]), key=lambda name: -steepest[name])
    rows = slopes[(slopes["accumulator"] == "storage") & (slopes["upstream"] == "shifted")]
    rows = rows[(rows["dtype"] == dtype) & rows["quantity"].isin(_QUANTITIES)]
    _panels.unmeasured(panel, rows)
    for number, quantity in enumerate(_QUANTITIES):
        part = rows[rows["quantity"] == quantity]
        height = [names.index(name) + 0.28 * (number - 1) for name in part["kernel"]]
        small = style.look(quantity).point | {"markersize": 2.3}
        ends = part["value_low"], part["value_high"]
        _panels.intervals(panel, part["value"], height, *ends, across=True, **small)
    for slope in (0, 1, 2):
        panel.axvline(slope, color=style.GREY, linestyle=":", linewidth=0.9, zorder=0)
    panel.grid(visible=False)
    panel.tick_params(axis="y", length=0)
    panel.set_yticks(range(len(names)), names, fontsize=style.SMALL)
    panel.set_ylim(max(len(names), 1) - 0.5, -0.5)
    panel.set_xlim(-0.4, 2.5)
    panel.set_xticks((0, 1, 2))
    panel.set_xlabel(r"slope in $\kappa$")
    _panels.subject(panel, dtype)

"""Time and extra memory against the number of rows and against the hidden size, with fitted exponents."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from layernorm_backward.directions import DIRECTIONS
from layernorm_backward.figures import _panels, style

TABLES = ("scaling_points", "scaling")
CAPTION = (
    "Backward pass: time (above) and memory beyond inputs and results (below) against (a, d) $N$ and "
    "(b, e) $D$, the other one fixed, with powers over the points that they are fitted to; (c, f) the "
    "exponents of both directions with their intervals, dotted: 1; ringed: the interval excludes 1."
)
_COLUMN = {"time": ("median_s", "time in s"), "extra": ("extra_bytes", "extra memory in MB")}
_RING = {"marker": "o", "markersize": 7, "markerfacecolor": "none", "color": style.GREY, "linestyle": "none"}
_AXIS = {"rows": "number of rows $N$", "hidden": "hidden size $D$"}


def draw(scaling_points: pd.DataFrame, scaling: pd.DataFrame) -> Figure:
    """Rows are time and extra memory; columns backward against N, against D, and all the exponents."""
    points, fits = _panels.measured(scaling_points, "median_s"), _panels.measured(scaling, "exponent")
    points = points[points["direction"] == "backward"]
    fits = fits[fits["quantity"].isin(_COLUMN)]
    if points.empty or fits.empty:
        return _panels.empty(scaling_points if points.empty else scaling, "Growth of time and extra memory")
    figure, axes = _panels.grid(2, 3, 3.2, width_ratios=(1, 1, 0.9))
    for row, quantity in enumerate(_COLUMN):
        for column, axis in enumerate(_AXIS):
            part = fits[(fits["axis"] == axis) & (fits["quantity"] == quantity)]
            _curves(axes[row, column], points[points["axis"] == axis], part, axis, quantity)
        _exponents(axes[row, 2], fits[fits["quantity"] == quantity])
    _panels.legend(
        figure, set(points["kernel"]) | set(fits["kernel"]), _panels.guide("fit", "-"), line=False, columns=6
    )
    return figure


def _curves(panel: Axes, points: pd.DataFrame, fits: pd.DataFrame, axis: str, quantity: str) -> None:
    column, label = _COLUMN[quantity]
    panel.set_xscale("log")
    panel.set_yscale("log")
    for name in style.ordered(points["kernel"]):
        part = points[points["kernel"] == name].dropna(subset=[column]).sort_values(axis)
        x, y = part[axis].to_numpy(float), part[column].to_numpy(float) / (1e6 if quantity == "extra" else 1)
        panel.plot(x, y, **style.look(name).point)
        fitted = fits[(fits["kernel"] == name) & (fits["direction"] == "backward")]
        if len(fitted) and (y > 0).any():
            last = slice(-int(fitted["points"].iloc[0]), None)
            power = _power(x[last], y[last], fitted["exponent"].iloc[0])
            panel.plot(x[last], power, color=style.look(name).colour, linewidth=0.8)
    panel.set(xlabel=_AXIS[axis], ylabel=label)
    _panels.unmeasured(panel, points)
    _panels.powers(panel.xaxis, 5)
    _panels.powers(panel.yaxis, 5)


def _power(x: NDArray[np.float64], y: NDArray[np.float64], exponent: float) -> NDArray[np.float64]:
    """c x^exponent through the geometric mean of the upper half of the points, where a call costs least."""
    upper = (y > 0) & (x >= np.median(x[y > 0]))
    middle_x, middle_y = (np.exp(np.log(values[upper]).mean()) for values in (x, y))
    return middle_y * (x / middle_x) ** exponent


def _exponents(panel: Axes, fits: pd.DataFrame) -> None:
    lines = [
        (d, a) for d in DIRECTIONS for a in _AXIS if ((fits["direction"] == d) & (fits["axis"] == a)).any()
    ]
    kernels = style.ordered(fits["kernel"])
    for row in fits.to_dict("records"):
        lift = 0.7 * ((kernels.index(row["kernel"]) + 0.5) / len(kernels) - 0.5)
        height = lines.index((row["direction"], row["axis"])) + lift
        ends, look = ([row["exponent_low"]], [row["exponent_high"]]), style.look(row["kernel"])
        _panels.intervals(panel, [row["exponent"]], [height], *ends, across=True, **look.point)
        if not row["exponent_low"] <= 1 <= row["exponent_high"]:
            panel.plot(row["exponent"], height, **_RING)
    panel.axvline(1, color=style.GREY, linestyle=":", linewidth=0.9)
    _panels.unmeasured(panel, fits)
    panel.set_yticks(range(len(lines)), [f"{d}, ${'N' if a == 'rows' else 'D'}$" for d, a in lines])
    panel.set_ylim(max(len(lines), 1) - 0.5, -0.5)
    panel.set_xlabel("exponent")

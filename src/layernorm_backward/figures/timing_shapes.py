"""Time for each element, and the fraction of the roof that it is, by kernel, at the published shapes."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_backward.directions import DIRECTIONS
from layernorm_backward.figures import _panels, style

TABLES = ("timing_cpu",)
CAPTION = (
    "Time for each element (median, with quantiles) and fraction of the roof (with interval) by kernel "
    "and shape, all on one thread; an asterisk marks a working set inside the last-level cache in every "
    "dtype and direction. Line: the roof."
)


def draw(timing_cpu: pd.DataFrame) -> Figure:
    """Rows are directions; columns time and fraction of the roof, each for up to two dtypes; one thread."""
    rows = _published(_panels.measured(timing_cpu, "median_s"))
    if rows.empty:
        return _panels.empty(timing_cpu, "Time of the kernels")
    directions = [name for name in DIRECTIONS if name in set(rows["direction"])]
    dtypes = _panels.dtypes(rows["dtype"])[:2]
    shapes = sorted(set(rows["shape"]), key=_panels.size)
    kernels = style.ordered(rows["kernel"])
    height = 0.7 + len(directions) * (0.4 + 0.145 * len(shapes))
    figure, axes = _panels.grid(len(directions), 2 * len(dtypes), height, sharey=True, sharex="col")
    for (row, column), panel in np.ndenumerate(axes):
        dtype, fraction = dtypes[column % len(dtypes)], column >= len(dtypes)
        part = rows[(rows["direction"] == directions[row]) & (rows["dtype"] == dtype)]
        _panel(panel, part, shapes, kernels, fraction)
        _panels.subject(panel, dtype)
        if column == 0:
            panel.set_yticks(range(len(shapes)), [_shape(shape, rows) for shape in shapes])
            panel.set_ylim(len(shapes) - 0.5, -0.5)
            panel.set_ylabel(directions[row])
        if row == len(directions) - 1:
            panel.set_xlabel("fraction of the roof" if fraction else "ns / element")
    _panels.legend(figure, kernels, line=False, columns=6)
    return figure


def _published(rows: pd.DataFrame) -> pd.DataFrame:
    """The shapes at which most kernels were timed, forward and backward, with the fewest threads."""
    rows = rows[rows["direction"].isin(DIRECTIONS) & (rows["gamma_dtype"] == rows["dtype"])]
    rows = rows[rows["threads"] == rows["threads"].min()]
    several = rows.groupby("shape")["kernel"].nunique()
    named = several.index[several == several.max()]
    return rows[rows["shape"].isin(named)]


def _shape(shape: str, rows: pd.DataFrame) -> str:
    inside = (rows.loc[rows["shape"] == shape, "residency"] == "cache").all()
    return _panels.times(shape) + ("*" if inside else "")


def _panel(panel: Axes, rows: pd.DataFrame, shapes: list[str], kernels: list[str], fraction: bool) -> None:
    panel.set_xscale("log")
    _panels.unmeasured(panel, rows)
    for number, name in enumerate(kernels):
        part = rows[rows["kernel"] == name]
        lift = 0.6 * ((number + 0.5) / len(kernels) - 0.5)
        heights = part["shape"].map(shapes.index).astype(float) + lift
        columns = [part["roof_fraction" + suffix] for suffix in ("", "_low", "_high")]
        if not fraction:
            elements = (part["rows"] * part["hidden"]).astype(float)
            columns = [part[column] / elements * 1e9 for column in ("median_s", "p20_s", "p80_s")]
        value, low, high = columns
        _panels.intervals(panel, value, heights, low, high, across=True, **style.look(name).point)
    if fraction:
        panel.axvline(1, color=style.GREY, linewidth=0.9)
    _panels.powers(panel.xaxis, 4)

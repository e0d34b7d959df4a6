"""The time of every variance algorithm, as a multiple of that of the two-pass one."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_backward.figures import _panels, style

TABLES = ("variance_time",)
CAPTION = (
    "Time of each variance algorithm over that of `two_pass`, paired, with interval, as NumPy programs, "
    "{hidden}, by dtype of the row and of the sums."
)


def draw(variance_time: pd.DataFrame) -> Figure:
    """One panel per dtype and accumulator, an algorithm a line."""
    rows = captioned(variance_time)
    if rows.empty:
        return _panels.empty(variance_time, "Time of the variance algorithms")
    names = style.ordered(rows["algorithm"])
    kinds = [
        (dtype, kept)
        for dtype in _panels.dtypes(rows["dtype"])
        for kept in sorted(set(rows.loc[rows["dtype"] == dtype, "accumulator"]), reverse=True)
    ]
    columns = min(3, len(kinds))
    lines = -(-len(kinds) // columns)
    height = lines * (0.6 + 0.17 * len(names))
    figure, axes = _panels.grid(lines, columns, height, sharey=True, sharex=True)
    for panel in axes.flat[len(kinds) :]:
        panel.remove()
    for panel, (dtype, kept) in zip(axes.flat, kinds, strict=False):
        _panel(panel, rows[(rows["dtype"] == dtype) & (rows["accumulator"] == kept)], names)
        _panels.subject(panel, f"{dtype}, sums {kept.replace('storage', dtype)}")
    for panel in axes.flat[max(0, len(kinds) - columns) : len(kinds)]:
        panel.set_xlabel("time / time of two_pass")
        panel.tick_params(labelbottom=True)
    return figure


def captioned(variance_time: pd.DataFrame) -> pd.DataFrame:
    """The rows at one D, which the caption names."""
    return _panels.at_one_size(_panels.measured(variance_time, "two_pass_ratio"))


def _panel(panel: Axes, rows: pd.DataFrame, names: list[str]) -> None:
    panel.set_xscale("log")
    for row in rows.to_dict("records"):
        value, low, high = ([row["two_pass_ratio" + end]] for end in ("", "_low", "_high"))
        height, look = [names.index(row["algorithm"])], style.look(row["algorithm"])
        _panels.intervals(panel, value, height, low, high, across=True, **look.point)
    panel.axvline(1, color=style.GREY, linewidth=0.9)
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(len(names) - 0.4, -0.6)
    _panels.powers(panel.xaxis, 4)

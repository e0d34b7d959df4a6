"""The size from which non-temporal stores are faster: alone, and followed by a read of the result."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter

from layernorm_backward.figures import _panels, style
from layernorm_backward.figures.style import Look

TABLES = ("stores",)
CAPTION = (
    "Time of `numba_fused` with ordinary stores over that with non-temporal ones, with interval, against the "
    "bytes of the arrays of a pass; above 1 non-temporal stores are faster. The pass alone (open), and with "
    "its result read next on the same threads (filled). Dotted: the size from which on the kernel chooses "
    "non-temporal stores. Float32, {hidden}."
)
CENTRE = {"dtype": "float32"}
LOOKS = {
    ("nothing", False): Look("#56B4E9", "o", fill="none"),
    ("nothing", True): Look("#E69F00", "s", fill="none"),
    ("read", False): Look("#0072B2", "o"),
    ("read", True): Look("#D55E00", "s"),
}  # by what happens then, and whether all threads run
_RATIOS = (0.3, 0.4, 0.6, 0.8, 1, 1.5, 2, 3, 5, 10)  # ticks
THEN = {"nothing": "the pass", "read": "and a reading of its result"}


def draw(stores: pd.DataFrame) -> Figure:
    """One panel per direction, one line per number of threads and what happens then."""
    rows = captioned(stores)
    if rows.empty:
        return _panels.empty(stores, "Ordinary and non-temporal stores")
    directions = sorted(set(rows["direction"]))
    counts = _panels.fewest_and_most(rows["threads"])
    figure, axes = _panels.grid(1, len(directions), 3.1, sharex=True, sharey=True)
    for panel, direction in zip(axes.flat, directions, strict=True):
        _panel(panel, rows[rows["direction"] == direction], counts)
        _panels.subject(panel, direction)
        panel.set_xlabel("arrays of the pass in MB")
    axes.flat[0].set_ylabel("time, ordinary over non-temporal", labelpad=6)
    handles = [
        Line2D([], [], label=f"{said}, {_panels.threads(count)}", **_look(then, count).curve)
        for then, said in THEN.items()
        for count in counts
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2)
    _panels.note(figure, _panels.others(rows, CENTRE))
    return figure


def captioned(stores: pd.DataFrame) -> pd.DataFrame:
    """The rows of one dtype at one D, which the caption names."""
    return _panels.at_one_size(_panels.centre(_panels.measured(stores, "ratio"), CENTRE))


def _look(then: str, count: int) -> Look:
    return LOOKS[then, count > 1]


def _panel(panel: Axes, rows: pd.DataFrame, counts: Iterable[int]) -> None:
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.axhline(1, color=style.GREY, linewidth=0.9)
    for count in counts:
        part = rows[rows["threads"] == count].sort_values("bytes")
        for then in THEN:
            its = part[part["then"] == then]
            _panels.ratios(panel, its["bytes"] / 1e6, its, "ratio", **_look(then, count).curve)
        change = _change(part)
        if np.isfinite(change):
            colour = _look("read", count).colour
            panel.axvline(change / 1e6, color=colour, linewidth=0.9, linestyle=_dots(count))
    _panels.powers(panel.xaxis)
    _panels.powers(panel.yaxis)
    panel.yaxis.set_major_locator(FixedLocator(_RATIOS))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _dots(count: int) -> tuple[float, tuple[float, float]]:
    """Points and gaps of a line: those of all threads lie in the gaps of one thread's, should both meet."""
    return (2.25 if count > 1 else 0, (1.5, 3))


def _change(rows: pd.DataFrame) -> float:
    """Bytes half way between the largest size that is stored as usual and the next; nan where none is."""
    usual = rows.loc[~rows["stream"].astype(bool), "bytes"].max()
    past = rows.loc[rows["bytes"] > usual, "bytes"].min()
    return np.nan if pd.isna(usual) or pd.isna(past) else float(np.sqrt(float(usual) * float(past)))

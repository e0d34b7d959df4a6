"""The cost of the page offset of the result, for the pass and for its roof."""

from itertools import product

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from layernorm_backward.figures import _panels, style
from layernorm_backward.figures.style import Look

TABLES = ("page_offset",)
CAPTION = (
    "Time against the page offset of the result, over the time with an offset of half a page, with interval; "
    "$x$ and $dy$ begin 16 bytes into a page. `numba_fused` (filled), and its roof, a copy forward and a "
    "triad backward (open). Float32, {hidden}."
)
CENTRE = {"dtype": "float32"}
LOOKS = {
    ("ratio", False): Look("#0072B2", "o"),
    ("ratio", True): Look("#D55E00", "s"),
    ("roof_ratio", False): Look("#56B4E9", "o", fill="none"),
    ("roof_ratio", True): Look("#E69F00", "s", fill="none"),
}  # by what is timed, and whether all threads run
_BESIDE = 0.07  # of the way to the next place: so far apart are intervals at one place
TIMED = {"ratio": "numba_fused", "roof_ratio": "its roof"}


def draw(page_offset: pd.DataFrame) -> Figure:
    """One panel per direction, one line per number of threads and what is timed."""
    rows = captioned(page_offset)
    if rows.empty:
        return _panels.empty(page_offset, "The place of the result")
    directions, places = sorted(set(rows["direction"])), sorted(set(rows["place"]))
    counts = _panels.fewest_and_most(rows["threads"])
    figure, axes = _panels.grid(1, len(directions), 2.9, sharex=True, sharey=True)
    for panel, direction in zip(axes.flat, directions, strict=True):
        _panel(panel, rows[rows["direction"] == direction], counts, places)
        _panels.subject(panel, direction)
        panel.set_xlabel("bytes into a page")
    axes.flat[0].set_ylabel("time over that at half a page", labelpad=6)
    handles = [
        Line2D([], [], label=f"{said}, {_panels.threads(count)}", **_look(column, count).curve)
        for column, said in TIMED.items()
        for count in counts
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2)
    _panels.note(figure, _panels.others(rows, CENTRE))
    return figure


def captioned(page_offset: pd.DataFrame) -> pd.DataFrame:
    """The rows of one dtype at one D, which the caption names."""
    return _panels.at_one_size(_panels.centre(_panels.measured(page_offset, "ratio"), CENTRE))


def _look(column: str, count: int) -> Look:
    return LOOKS[column, count > 1]


def _panel(panel: Axes, rows: pd.DataFrame, counts: list[int], places: list[int]) -> None:
    panel.axhline(1, color=style.GREY, linewidth=0.9)
    for beside, (column, count) in enumerate(product(TIMED, counts)):
        part = rows[rows["threads"] == count].sort_values("place")
        at = part["place"].map(places.index) + _BESIDE * (beside - len(counts) + 0.5)
        _panels.ratios(panel, at, part, column, **_look(column, count).curve)
    panel.set_xticks(range(len(places)), [str(place) for place in places])

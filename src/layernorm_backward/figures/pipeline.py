"""The pipeline of `numba_fused`: sweep 2 over a row runs in one loop with sweep 1 over the next."""

from collections.abc import Iterable

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Patch, Rectangle

from layernorm_backward.figures import _panels, style

TABLES = ("traffic_steps",)
CAPTION = (
    "The backward pass of `numba_fused` on one thread, in time (not to scale). (a) With two sweeps one after "
    "the other, memory has no writes during the first and no reads during the second. (b) Sweep 2 of a row "
    "in one loop with sweep 1 of the next. (c) One iteration of that loop, for line $j$ of two rows; $a$ is "
    "the prefetch distance in lines. Accesses from the table `traffic_steps`."
)
_FIRST, _SECOND, _STORE, _PALE = "#BFD9EA", "#FBE3C0", "#D9EBD3", "#F2F2F2"
_ROWS = 4
_LANE = 0.72  # height of a bar in its lane
_OVERLAP = 1.5  # time of two sweeps in one loop, in sweeps: it moves three arrays where sweep 1 moves two


def draw(traffic_steps: pd.DataFrame) -> Figure:
    """Rows are lanes and time runs to the right; the lanes below show when memory reads and writes."""
    steps = traffic_steps[traffic_steps["kernel"] == "numba_fused"]
    steps = steps[steps["direction"] == "backward"]
    if steps.empty:
        return _panels.empty(pd.DataFrame({"reason": []}), "The steps of the backward pass of numba_fused")
    figure, axes = _panels.grid(3, 1, 4.1, height_ratios=(1, 1, 0.62))
    apart, beside, loop = axes[:, 0]
    _lanes(apart, [2 * row for row in range(_ROWS)], [2 * row + 1 for row in range(_ROWS)], 1)
    _panels.subject(apart, "one sweep after the other")
    starts = [_OVERLAP * row for row in range(_ROWS)]
    _lanes(beside, starts, [start + _OVERLAP for start in starts], _OVERLAP)
    accesses = (steps["reads"] - steps["cached"] + steps["writes"] - steps["kept"]).sum()
    _panels.subject(
        beside, f"two sweeps in one loop: {accesses:g} accesses to memory for each element, all the time"
    )
    beside.set_xlabel("time", loc="right")
    _turn(loop)
    _panels.subject(loop, "one turn of the loop")
    _legend(figure)
    return figure


def _lanes(panel: Axes, first: list[float], second: list[float], length: float) -> None:
    """Both sweeps over each row, and below them what memory does meanwhile."""
    names = ["$n$", *(f"$n+{row}$" for row in range(1, _ROWS))]
    for row, (start, then) in enumerate(zip(first, second, strict=True)):
        _bar(panel, start, length, row, _FIRST, "1")
        _bar(panel, then, length, row, _SECOND, "2")
    for start in first:
        _bar(panel, start, length, _ROWS + 0.25, _FIRST)
    for start in second:
        _bar(panel, start, length, _ROWS + 1.25, _STORE)
    lanes = [*range(_ROWS), _ROWS + 0.25, _ROWS + 1.25]
    panel.set_yticks(lanes, [*(f"row {name}" for name in names), "reads", "writes"])
    panel.set(xlim=(0, 2 * _ROWS), ylim=(_ROWS + 1.8, -0.55), xticks=[])
    panel.tick_params(left=False)
    panel.grid(visible=False)
    panel.axhline(_ROWS - 0.37, color=style.GREY, linewidth=0.5)


def _bar(panel: Axes, start: float, length: float, lane: float, colour: str, text: str = "") -> None:
    box = (start, lane - _LANE / 2), length, _LANE
    panel.add_patch(Rectangle(*box, facecolor=colour, edgecolor=style.GREY, linewidth=0.7))
    panel.text(start + length / 2, lane, text, ha="center", va="center", fontsize=style.SMALL)


def _turn(panel: Axes) -> None:
    """The three parts of a turn from left to right."""
    panel.set_axis_off()
    panel.set(xlim=(0, 1), ylim=(0, 1))
    parts = (
        (_PALE, "prefetch line $j + a$\nof $x$, $dy$, row $n+1$"),
        (_FIRST, "row $n+1$, line $j$, from memory:\nadd to the sums of\n$z$, $g$ and $g\\,z$"),
        (_SECOND, "row $n$, line $j$, from cache:\n$dx$ past the caches,\nadd to $d\\gamma$, $d\\beta$"),
    )
    for (left, right), (colour, text) in zip(((0, 0.28), (0.34, 0.64), (0.7, 1)), parts, strict=True):
        panel.add_patch(
            FancyBboxPatch(
                (left, 0.02),
                right - left,
                0.92,
                "round,pad=0,rounding_size=0.012",
                facecolor=colour,
                edgecolor=style.GREY,
                linewidth=0.7,
                mutation_aspect=8,
                clip_on=False,
            )
        )
        panel.text((left + right) / 2, 0.48, text, ha="center", va="center", linespacing=1.3)
    _arrows(panel, ((0.28, 0.34), (0.64, 0.7)))


def _arrows(panel: Axes, gaps: Iterable[tuple[float, float]]) -> None:
    for start, end in gaps:
        panel.annotate(
            "", (end, 0.48), (start, 0.48), arrowprops={"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0}
        )


def _legend(figure: Figure) -> None:
    kinds = (
        (_FIRST, "sweep 1: reads $x$, $dy$; sums"),
        (_SECOND, "sweep 2: both again, from cache"),
        (_STORE, "$dx$ written"),
    )
    handles = [
        Patch(facecolor=colour, edgecolor=style.GREY, linewidth=0.7, label=label) for colour, label in kinds
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))

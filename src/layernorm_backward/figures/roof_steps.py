"""From the roof to the kernel: what is left of the roof after each kind of access that a pass makes."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator

from layernorm_backward.figures import _panels, style
from layernorm_backward.figures.style import Look

TABLES = ("roof_steps",)
CAPTION = (
    "From the roof to `numba_fused`: fraction of the roof, with interval, of loops that make the accesses of "
    "a pass, against the hidden size; each loop adds one kind of access to those of the loops named before "
    "it. The last is the pass itself. Copy (forward) or triad (backward) on the same arrays is 1; float32, "
    "beyond the cache."
)
CENTRE = {"dtype": "float32", "residency": "memory"}
LOOKS = {
    "by_row": ("row by row", Look("#56B4E9", "o")),
    "read_twice": ("rows read twice", Look("#0072B2", "s")),
    "gamma": (r"$\gamma$ (and $\beta$)", Look("#CC79A7", "^", fill="none")),
    "partial_sums": ("partial sums", Look("#D55E00", "D", fill="none")),
    "pass": ("the pass", Look("#000000", "v")),
}


def draw(roof_steps: pd.DataFrame) -> Figure:
    """One row of panels per direction, one column per number of threads, one line per step."""
    rows = _panels.centre(_panels.measured(roof_steps, "roof_fraction"), CENTRE)
    if rows.empty:
        return _panels.empty(roof_steps, "From the roof to the kernel")
    counts = _panels.fewest_and_most(rows["threads"])
    directions = sorted(set(rows["direction"]))
    figure, axes = _panels.grid(
        len(directions), len(counts), 0.8 + 1.7 * len(directions), sharex=True, sharey=True
    )
    for line, direction in zip(axes, directions, strict=True):
        for panel, count in zip(line, counts, strict=True):
            _curves(panel, rows[(rows["direction"] == direction) & (rows["threads"] == count)])
            _panels.subject(panel, f"{direction}, {_panels.threads(count)}")
    for panel in axes[-1]:
        panel.set_xlabel("hidden size $D$")
    for panel in axes[:, 0]:
        panel.set_ylabel("fraction of the roof", labelpad=6)
    axes[0, 0].xaxis.set_major_locator(FixedLocator([4**power for power in range(3, 9)]))
    axes[0, 0].set_ylim(0, max(1.05, 1.04 * rows["roof_fraction"].max()))
    named = [(label, look) for name, (label, look) in LOOKS.items() if name in set(rows["step"])]
    handles = [Line2D([], [], label=label, **look.curve) for label, look in named]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    _panels.note(figure, _panels.others(rows, CENTRE))
    return figure


def _curves(panel: Axes, rows: pd.DataFrame) -> None:
    panel.set_xscale("log", base=2)
    _panels.unmeasured(panel, rows)
    panel.axhline(1, color=style.GREY, linewidth=0.9)
    for name, (_, look) in LOOKS.items():
        part = rows[rows["step"] == name].sort_values("hidden")
        _panels.ratios(panel, part["hidden"], part, "roof_fraction", **look.curve)

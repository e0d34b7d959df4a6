"""What each decision of numba_fused costs or saves: the default against each variant."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from layernorm_backward.directions import DIRECTIONS
from layernorm_backward.dtypes import DTYPE_NAMES
from layernorm_backward.figures import _panels, style
from layernorm_backward.figures.style import Look

TABLES = ("kernel_costs",)
CAPTION = (
    "Time that each decision of `numba_fused` adds (right of 0) or saves (left), relative to the variant "
    "named, paired, with interval; axis linear to 5 %, logarithmic beyond. Rows named by $D$: backward, "
    "float32, all threads; the others are at {hidden} and differ from that as named. Dotted: goal and floor "
    "of the cost of re-centring, 1 % and 5 %. Filled: a difference by our rule."
)
TITLES = {"beyond_cache": "beyond the cache", "in_cache": "in the last-level cache"}
LINEAR = 5  # per cent
GOALS = (1, 5)  # per cent
_TICKS = (-60, -20, -5, 0, 1, 5, 20, 60)
_BLUES = ("#56B4E9", "#0072B2", "#00334F", "#000000")
_WARM = ("#E69F00", "#D55E00", "#CC79A7", "#009E73", "#8C5A00")
_BY_SIZE = [Look(colour, marker) for colour, marker in zip(_BLUES, "os^D", strict=True)]
_OTHERS = [Look(colour, marker) for colour, marker in zip(_WARM, "vP<>X", strict=True)]
Series = tuple[str, Look, pd.DataFrame]


def draw(kernel_costs: pd.DataFrame) -> Figure:
    """One panel per working set, one line per variant, one marker per size or setting."""
    rows = _rows(kernel_costs)
    if rows.empty:
        return _panels.empty(kernel_costs, "Cost of the decisions of numba_fused")
    sets = list(rows["working_set"].unique())[:2]
    variants = list(rows["variant"].unique())
    series = list(_series(rows, captioned(kernel_costs)))
    figure, axes = _panels.grid(1, len(sets), 0.9 + 0.47 * len(variants), sharey=True)
    for panel, working_set in zip(axes.flat, sets, strict=True):
        _panel(
            panel, [(look, part[part["working_set"] == working_set]) for _, look, part in series], variants
        )
        _panels.subject(panel, TITLES.get(working_set, f"{working_set} bytes"))
    axes.flat[0].set_yticks(range(len(variants)), variants)
    axes.flat[0].set_ylim(len(variants) - 0.5, -0.5)
    handles = [Line2D([], [], label=name, **look.point) for name, look, _ in series]
    figure.legend(handles=handles, loc="outside upper center", ncols=min(5, len(handles)))
    _panels.note(figure, _streamed(kernel_costs))
    return figure


def captioned(kernel_costs: pd.DataFrame) -> pd.DataFrame:
    """The rows at one D, which the caption names."""
    return _panels.at_one_size(_rows(kernel_costs))


def _rows(kernel_costs: pd.DataFrame) -> pd.DataFrame:
    rows = _panels.measured(kernel_costs, "cost")
    return rows[rows["variant"] != "default"]


def _streamed(kernel_costs: pd.DataFrame) -> str:
    """In how many cells in the cache the default has the plan for arrays beyond it, as a note, if in any."""
    cells = _panels.measured(kernel_costs, "cost")
    cells = cells[(cells["variant"] == "default") & (cells["residency"] == "cache")]
    streamed = int(cells["stream"].sum())
    told = (
        f"In {streamed} of {len(cells)} cells in the last-level cache the default too stores its result past "
        "the caches: there its plan is the one for arrays beyond them."
    )
    return told if streamed else ""


def _series(rows: pd.DataFrame, at_one_size: pd.DataFrame) -> Iterator[Series]:
    """The sizes of the centre; at one size, all that differs from it in one thing."""
    centre = {
        "dtype": "float32" if "float32" in set(rows["dtype"]) else rows["dtype"].iloc[0],
        "direction": "backward" if "backward" in set(rows["direction"]) else "forward",
        "threads": rows["threads"].max(),
    }
    alike = {name: rows[name] == value for name, value in centre.items()}
    middle = rows[np.logical_and.reduce(list(alike.values()))]
    for size, look in _panels.by_size(middle["hidden"], _BY_SIZE).items():
        yield f"$D = {size}$", look, middle[middle["hidden"] == size]
    looks = iter(_OTHERS)
    for name, values in (("dtype", DTYPE_NAMES), ("threads", (1,)), ("direction", DIRECTIONS)):
        others = [alike[other][at_one_size.index] for other in centre if other != name]
        part = at_one_size[np.logical_and.reduce(others)]
        for value in values:
            if value != centre[name] and value in set(part[name]):
                yield "one thread" if name == "threads" else value, next(looks), part[part[name] == value]


def _panel(panel: Axes, series: list[tuple[Look, pd.DataFrame]], variants: list[str]) -> None:
    panel.set_xscale("symlog", linthresh=LINEAR, linscale=1.2)
    _panels.unmeasured(panel, pd.concat([part for _, part in series]))
    for number, (look, part) in enumerate(series):
        height = part["variant"].map(variants.index) + 0.76 * ((number + 0.5) / len(series) - 0.5)
        cost, low, high = (100 * part["cost" + end].to_numpy(float) for end in ("", "_low", "_high"))
        white = look.point | {"markerfacecolor": "white"}
        _panels.intervals(panel, cost, height, low, high, across=True, **white)
        sure = part["differs"].to_numpy(bool)
        panel.plot(cost[sure], height[sure], **look.point, zorder=3)
    panel.axvline(0, color=style.GREY, linewidth=0.9)
    for goal in GOALS:
        panel.axvline(goal, color=style.GREY, linewidth=0.7, linestyle=":")
    for line in range(len(variants) - 1):
        panel.axhline(line + 0.5, color=style.GREY, linewidth=0.3)
    panel.xaxis.set_major_locator(FixedLocator(_TICKS))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:g}".replace("-", "\N{MINUS SIGN}"))
    )
    panel.set_xlabel("cost, % of the variant's time")

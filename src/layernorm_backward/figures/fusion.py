"""The data flow of the backward pass: a kernel for each equation, or one kernel for all of them."""

from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from layernorm_backward.figures import _panels, style

TABLES = ("traffic_steps",)
CAPTION = (
    "The backward pass (a) with one kernel per equation and (b) fused. Each arrow is one access to an array "
    "of the size of $x$; dashed arrows find the row in registers or cache. Totals from the table "
    "`traffic_steps`."
)
_PALE, _MEMORY, _CACHE = "#F2F2F2", "#BFD9EA", "#FBE3C0"


@dataclass(frozen=True)
class Step:
    """What a step of the traffic model computes, and the arrays of x's size that it reads and writes."""

    formula: str
    reads: tuple[str, ...]
    writes: tuple[str, ...] = ()


_G, _X, _XHAT, _DY, _DX = "$g$", "$x$", r"$\hat x$", "$dy$", "$dx$"
_STEPS = {
    ("separate", "g"): Step(r"$g = \gamma\,dy$", (_DY,), (_G,)),
    ("separate", "c1"): Step(r"$c_1 = \overline{g}$", (_G,)),
    ("separate", "c2"): Step(r"$c_2 = \overline{g\,\hat x}$", (_G, _XHAT)),
    ("separate", "dx"): Step("$dx = r\\,(g - c_1$\n$\\ -\\,\\hat x\\,c_2)$", (_G, _XHAT), (_DX,)),
    ("separate", "dgamma"): Step(r"$d\gamma = \sum dy\,\hat x$", (_DY, _XHAT)),
    ("separate", "dbeta"): Step(r"$d\beta = \sum dy$", (_DY,)),
    ("fused", "c1, c2"): Step(
        "sweep 1: $c_1 = \\overline{g}$,  $c_2 = \\overline{g\\,\\hat x}$\n"
        r"with $g = \gamma\,dy$,  $\hat x = r\,(x - m)$",
        (_X, _DY),
    ),
    ("fused", "dx, dgamma, dbeta"): Step(
        "sweep 2: $dx = r\\,(g - c_1 - \\hat x\\,c_2)$,\nadd to $d\\gamma$, $d\\beta$", (_X, _DY), (_DX,)
    ),
}


# Heights in a panel, its foot 0, its top 1: memory's foot, the cache's top and foot, the steps' top.
_MEMORY_AT, _CACHE_TOP, _CACHE_FOOT, _STEP_TOP = 0.86, 0.62, 0.49, 0.34


def draw(traffic_steps: pd.DataFrame) -> Figure:
    """One arrow is one access to an array of the size of x; dashed arrows hit the cache."""
    rows = traffic_steps[traffic_steps["direction"] == "backward"].sort_values("step")
    figure, axes = _panels.grid(2, 1, 3.05, height_ratios=(1, 1.3))
    for panel, scheme, title in (
        (axes[0, 0], "separate", "one kernel per equation"),
        (axes[1, 0], "fused", "one kernel, row by row"),
    ):
        steps = rows[rows["kernel"] == scheme]
        if steps.empty:
            return _panels.empty(pd.DataFrame({"reason": []}), f"The steps of the {scheme} backward pass")
        _scheme(panel, scheme, steps.to_dict("records"))
        accesses = (steps["reads"] - steps["cached"] + steps["writes"]).sum()
        _panels.subject(panel, f"{title}: {accesses:g} accesses to memory for each element")
    return figure


def _scheme(panel: Axes, scheme: str, steps: list[dict]) -> None:
    """Memory above, the steps below, and between them the cache if a step hits it."""
    panel.set_axis_off()
    panel.set(xlim=(0, 1), ylim=(-0.02, 1))
    cached = any(step["cached"] > 0 for step in steps)
    width = 1 / len(steps)
    _box(panel, (0, 1), (_MEMORY_AT, 1), _MEMORY, "main memory: arrays of the size of $x$")
    if cached:
        right = 1 - width / 3  # the write passes it
        _box(
            panel,
            (0.04, right),
            (_CACHE_FOOT, _CACHE_TOP),
            _CACHE,
            "registers or cache: one row of each array",
        )
    for number, step in enumerate(steps):
        known = _STEPS.get((scheme, step["name"]), Step(step["name"], ()))
        left = number * width
        margin = 0.008 if not cached else 0.03
        foot = 0.0 if not cached else 0.03
        _box(panel, (left + margin, left + width - margin), (foot, _STEP_TOP), _PALE, known.formula)
        _accesses(panel, left, width, step, known, cached)


def _box(panel: Axes, across: tuple[float, float], up: tuple[float, float], colour: str, text: str) -> None:
    (left, right), (foot, top) = across, up
    panel.add_patch(
        FancyBboxPatch(
            (left, foot),
            right - left,
            top - foot,
            "round,pad=0,rounding_size=0.012",
            facecolor=colour,
            edgecolor=style.GREY,
            linewidth=0.7,
            mutation_aspect=3,
            clip_on=False,
        )
    )
    panel.text((left + right) / 2, (foot + top) / 2, text, ha="center", va="center", linespacing=1.3)


def _accesses(panel: Axes, left: float, width: float, step: dict, known: Step, cached: bool) -> None:
    """One arrow per access, reads before writes, each with the name of its array."""
    reads, writes, near = int(step["reads"]), int(step["writes"]), int(step["cached"])
    names = known.reads + known.writes
    if (len(known.reads), len(known.writes)) != (reads, writes):
        names = ("",) * (reads + writes)
    for number, name in enumerate(names):
        x = left + width * (number + 0.5) / len(names)
        if number >= reads:
            _arrow(panel, x, _STEP_TOP, _MEMORY_AT, name)
        elif not cached:
            _arrow(panel, x, _MEMORY_AT, _STEP_TOP, name)
        else:
            if number >= near:
                _arrow(panel, x, _MEMORY_AT, _CACHE_TOP, name)
            _arrow(panel, x, _CACHE_FOOT, _STEP_TOP, name, line=(0, (2.5, 1.5)))


def _arrow(panel: Axes, x: float, start: float, end: float, name: str, line: object = "-") -> None:
    looks = {
        "arrowstyle": "-|>",
        "linewidth": 1.0,
        "linestyle": line,
        "shrinkA": 0,
        "shrinkB": 0,
        "color": "black",
    }
    panel.annotate("", (x, end), (x, start), arrowprops=looks | {"mutation_scale": 8})
    panel.text(x + 0.006, (start + end) / 2, name, ha="left", va="center")

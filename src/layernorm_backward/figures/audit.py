"""The audit at a glance: worst errors, their growth with mean/std, and the edge cases that fail."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from layernorm_backward.figures import _panels, style

TABLES = ("audit", "audit_peers")
CAPTION = (
    "The audit of our kernels and of other packages, by dtype: the largest error over all $\\kappa$, in $u$, "
    "$dy\\sim N(1,1)$; the power of $\\kappa$ with which it grows (95 % intervals from five points on; "
    "dotted: 1 and 2); the number of edge cases that fail, no bar for none. Dashed: limits of the audit, "
    "above which a kernel fails; $\\infty$, where it is drawn: not finite."
)
QUANTITIES = ("y", "dx", "dgamma")
_OFFSET = {"y": -0.3, "dx": 0.0, "dgamma": 0.3}
_LEAST = 4  # lines, as high as the name of a dtype is long
_BEYOND = 30.0  # what is not finite is drawn so many times further out than the largest number


def draw(audit: pd.DataFrame, audit_peers: pd.DataFrame) -> Figure:
    """Rows are dtypes, in each a line a kernel; columns worst error, slope, failed edge cases."""
    both = pd.concat([audit, audit_peers], ignore_index=True)
    rows = both[both["reason"] == ""].drop_duplicates(["kernel", "dtype", "property"])
    if rows.empty:
        return _panels.empty(both, "The audit")
    parts = {dtype: rows[rows["dtype"] == dtype] for dtype in _panels.dtypes(rows["dtype"])}
    names = {dtype: style.ordered(part["kernel"]) for dtype, part in parts.items()}
    ratios = [max(len(its), _LEAST) + 1.0 for its in names.values()]
    options = {"height_ratios": ratios, "width_ratios": (4, 3, 2)}
    height = 0.8 + 0.135 * sum(ratios)
    figure, axes = _panels.grid(len(parts), 3, height, sharex="col", sharey="row", gridspec_kw=options)
    for panels, (dtype, part) in zip(axes, parts.items(), strict=True):
        _errors(panels[0], part, names[dtype])
        _slopes(panels[1], part, names[dtype])
        _edges(panels[2], part, names[dtype])
        panels[0].set_yticks(range(len(names[dtype])), names[dtype])
        panels[0].set_ylim(len(names[dtype]) - 0.4, -0.6)
        panels[0].set_ylabel(dtype)
    _finish(axes)
    _panels.legend(figure, QUANTITIES, _panels.guide("limit"), line=False)
    return figure


def _errors(panel: Axes, rows: pd.DataFrame, names: list[str]) -> None:
    found = rows[rows["property"].isin([f"{name}_error" for name in QUANTITIES])]
    finite = found["value"][np.isfinite(found["value"])]
    beyond = _BEYOND * float(finite.max()) if len(finite) else 1.0
    panel.set_xscale("log")
    for name in QUANTITIES:
        part = found[found["property"] == f"{name}_error"]
        values = part["value"].clip(upper=beyond)
        places = _places(part, names) + _OFFSET[name]
        panel.plot(values, places, **style.look(name).point)
        for x, y in zip(values[values == beyond], places[values == beyond], strict=True):
            panel.annotate(
                r"$\infty$", (x, y), xytext=(3, -2), textcoords="offset points", fontsize=style.SMALL
            )
    _limit(panel, found)


def _slopes(panel: Axes, rows: pd.DataFrame, names: list[str]) -> None:
    for name in QUANTITIES:
        part = rows[rows["property"] == f"{name}_slope"].dropna(subset=["value"])
        places = _places(part, names) + _OFFSET[name]
        ends = part["value_low"], part["value_high"]
        _panels.intervals(panel, part["value"], places, *ends, across=True, **style.look(name).point)
    for power in (1, 2):
        panel.axvline(power, color=style.GREY, linewidth=0.5, linestyle=":", zorder=0)
    _limit(panel, rows[rows["property"] == "dx_slope"])


def _edges(panel: Axes, rows: pd.DataFrame, names: list[str]) -> None:
    failed = rows[rows["property"] == "edge_cases"]
    panel.barh(_places(failed, names), failed["value"], height=0.6, color=style.GREY)


def _places(rows: pd.DataFrame, names: list[str]) -> np.ndarray:
    return np.array([names.index(name) for name in rows["kernel"]], dtype=float)


def _limit(panel: Axes, rows: pd.DataFrame) -> None:
    if len(rows):
        panel.axvline(float(rows["limit"].iloc[0]), color=style.GREY, linewidth=0.9, linestyle="--", zorder=0)


def _finish(axes: np.ndarray) -> None:
    labels = "largest error ($u$)", r"power of $\kappa$", "cases failed"
    for panel, text in zip(axes[-1], labels, strict=True):
        panel.set_xlabel(text)
    for panels in axes:
        for panel in panels:
            panel.tick_params(axis="y", length=0)
    _panels.powers(axes[0, 0].xaxis)
    axes[0, 2].set_xlim(left=0)
    axes[0, 0].figure.align_ylabels(axes[:, 0])
    axes[0, 2].xaxis.set_major_locator(MaxNLocator(integer=True, nbins=4))

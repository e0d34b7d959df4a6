"""Distance of every derivation of the gradients from the exact result."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from layernorm_backward.figures import _panels, style

TABLES = ("derivation",)
CAPTION = (
    "Distance of each derivation from the exact gradients, relative and norm-wise, one dot per shape and "
    "kind of $\\gamma$, float64. Errors below $10^{-19}$ are drawn on the left edge. Proved: SymPy "
    "simplifies the difference to zero. The docstring formula is correct only where $\\gamma$ is uniform."
)
_EXACT = 1e-19  # smaller errors, 0 among them, are drawn here
_TICKS = (1e-15, 1e-10, 1e-5, 1.0)
_FILL = {"uniform": "none", "random": "full"}


def draw(derivation: pd.DataFrame) -> Figure:
    """One dot per shape and kind of gamma; 0 holds what is nearer than 1e-19."""
    rows = derivation[derivation["reason"] == ""]
    if rows.empty:
        return _panels.empty(derivation, "Distance of the derivations from the exact gradients")
    names = list(dict.fromkeys(rows["derivation"]))
    quantities = style.ordered(rows["quantity"])
    height = 0.85 + 0.17 * len(names)
    figure, axes = _panels.grid(1, len(quantities), height, sharey=True, sharex=True)
    for panel, quantity in zip(axes.flat, quantities, strict=True):
        part = rows[rows["quantity"] == quantity]
        _dots(panel, part, names)
        _panels.subject(panel, style.MATH.get(quantity, quantity))
        panel.set_xlabel("relative error")
        panel.set_xlim(_EXACT / 3, max(10.0, 3 * rows["rel_error"].max()))
        panel.set_xticks([_EXACT, *_TICKS], ["0", *(f"$10^{{{np.log10(t):.0f}}}$" for t in _TICKS)])
        panel.xaxis.set_minor_locator(NullLocator())
    axes[0, 0].set_yticks(range(len(names)), [_label(rows, name) for name in names])
    axes[0, 0].set_ylim(len(names) - 0.4, -0.6)
    figure.legend(handles=_handles(rows["gamma_kind"]), loc="outside upper center", ncols=2)
    return figure


def _label(rows: pd.DataFrame, name: str) -> str:
    proved = rows.loc[rows["derivation"] == name, "proved"].fillna(False).astype(bool).any()
    return f"{name} (proved)" if proved else name


def _dots(panel: Axes, rows: pd.DataFrame, names: list[str]) -> None:
    panel.set_xscale("log")
    for kind, part in rows.dropna(subset=["rel_error"]).groupby("gamma_kind"):
        lift = 0.16 if _FILL.get(str(kind)) == "full" else -0.16
        heights = part["derivation"].map(names.index) + lift
        panel.plot(np.maximum(part["rel_error"], _EXACT), heights, **_point(str(kind)), alpha=0.85)


def _point(kind: str) -> dict[str, object]:
    open_marker = _FILL.get(kind) == "none"
    return style.look("dx").point | {"markerfacecolor": "white" if open_marker else style.look("dx").colour}


def _handles(kinds: pd.Series) -> list[Line2D]:
    return [Line2D([], [], label=rf"$\gamma$ {kind}", **_point(kind)) for kind in sorted(set(kinds))]

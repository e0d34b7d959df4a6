"""Rules of tolerance against kappa: how many correct kernels each rejects, and how many faulty ones."""

from itertools import product

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from layernorm_backward.figures import _panels, style

TABLES = ("tolerance",)
CAPTION = (
    "Share in percent of the correct kernels that a tolerance rule rejects (top), and of the faulty ones "
    "(bottom), by dtype and $\\kappa$, all scales of rows and kinds of $dy$ together. Shaded: the rule "
    "fails, as it rejects a correct kernel (top), or accepts a faulty one whose error is over 64 times that "
    "of every correct one (bottom). In white cells below 100 the faulty ones that pass have smaller errors. "
    "The ideal rules know the errors of the correct ones. Hatched: no row of the dtype has this $\\kappa$. "
    "Rules: `allclose`, `assert_close`: defaults of NumPy and PyTorch; `quack`: that package's test; "
    "`fixed_...`: `rtol = atol` of that size; `twice_plain`, `flash_attention`: twice and four times the "
    "largest error of `compact`; `full_bound`: @eq:fullbound; `one_line`: the line of the text; "
    "`..._strict`: the same for kernels that re-centre ($\\kappa' = 1$)."
)
RULES = (
    "allclose",
    "assert_close",
    "quack",
    "fixed_1e-3",
    "fixed_1e-2",
    "twice_plain",
    "flash_attention",
    "full_bound",
    "one_line",
    "ideal",
    "full_bound_strict",
    "one_line_strict",
    "ideal_strict",
)
_PROPERTIES = {"false_alarms": "right ones rejected", "killed": "wrong ones rejected"}
_GOOD, _BAD, _EDGE = "#FFFFFF", "#F0B27A", "#B0B0B0"
_ROW = 0.15  # inches


def draw(tolerance: pd.DataFrame) -> Figure:
    """Rows of panels are properties, columns dtypes; in a panel a row is a rule, one column per kappa."""
    table = tolerance[tolerance["property"].isin(_PROPERTIES)]
    rows = _panels.measured(table, "value")
    if rows.empty:
        return _panels.empty(tolerance, "False alarms and killed mutants of rules of tolerance")
    dtypes, kappas = _panels.dtypes(rows["dtype"]), sorted(rows["kappa"].unique())
    names = [name for name in _PROPERTIES if name in set(rows["property"])]
    rules = {name: _rules(rows["rule"][rows["property"] == name]) for name in names}
    heights = [len(rules[name]) for name in names]
    figure, axes = _panels.grid(
        len(names),
        len(dtypes),
        1.0 + sum(_ROW * max(height, 6) + 0.15 for height in heights),
        sharex=True,
        sharey="row",
        height_ratios=heights,
    )
    for (row, column), panel in np.ndenumerate(axes):
        part = rows[(rows["property"] == names[row]) & (rows["dtype"] == dtypes[column])]
        _panel(panel, part, rules[names[row]], kappas)
        if row == 0:
            _panels.subject(panel, dtypes[column])
        if row == len(names) - 1:
            panel.set_xlabel(r"condition number $\kappa$")
    for panel, name in zip(axes[:, 0], names, strict=True):
        panel.set_ylabel(_PROPERTIES[name])
    shades = [Patch(facecolor=_BAD, edgecolor=_EDGE, label="the rule fails"), _panels.no_rows()]
    figure.legend(handles=shades, loc="outside upper center", ncols=2)
    return figure


def _rules(found: pd.Series) -> list[str]:
    """The rules there are, in the order of RULES, others after them."""
    present = set(found)
    return [rule for rule in RULES if rule in present] + sorted(present - set(RULES))


def _panel(panel: Axes, rows: pd.DataFrame, rules: list[str], kappas: list[float]) -> None:
    panel.grid(False)
    panel.set_xlim(-0.5, len(kappas) - 0.5)
    panel.set_ylim(len(rules) - 0.5, -0.5)
    panel.set_xticks(range(len(kappas)), [f"$10^{{{np.log10(kappa):.3g}}}$" for kappa in kappas], fontsize=7)
    panel.set_yticks(range(len(rules)), rules, fontsize=7)
    panel.tick_params(length=0)
    cells = {key: part for key, part in rows.groupby(["rule", "kappa"])}
    for (y, rule), (x, kappa) in product(enumerate(rules), enumerate(kappas)):
        part = cells.get((rule, kappa))
        look = style.HATCH if part is None else {"facecolor": _GOOD if part["passed"].all() else _BAD}
        panel.add_patch(
            Rectangle((x - 0.5, y - 0.5), 1, 1, **({"edgecolor": _EDGE, "linewidth": 0.3} | look))
        )
        if part is not None:
            share = np.average(part["value"], weights=part["cases"].astype(float))
            panel.text(x, y, _percent(share), ha="center", va="center_baseline", fontsize=6.5)


def _percent(share: float) -> str:
    """0 and 100 are said of nothing else."""
    return f"{100 * share:.0f}" if share in (0, 1) else f"{min(max(100 * share, 1), 99):.0f}"

"""Which faults each gradient check catches: on usual data, on the smallest sufficient set, on every set."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from layernorm_backward.figures import _panels, style

TABLES = ("mutation",)
CAPTION = (
    "Faults injected into the backward pass, checks at their default tolerances. (a) Rows and $dy$ from "
    "$N(0,1)$, $\\gamma=1$. (b) The smallest set on which our check catches every fault. (c) PyTorch's "
    "gradcheck of the loss on every data set, by rows and $\\gamma$; in each group from the left $dy$ with "
    "$\\sum g=0$, from $N(0,1)$, from $N(1,1)$, and $dy=y$. Hatched: the check fails the correct kernel too. "
    "A dash: on these data the faulty gradients are correct."
)
CHECKS = {
    "torch_gradcheck": "PyTorch, of y",
    "torch_gradcheck_loss": "PyTorch, of the loss",
    "jax_check_grads": "JAX, of y",
    "jax_check_grads_loss": "JAX, of the loss",
    "jax_check_grads_x64": "JAX, of y, float64",
    "scipy_check_grad": "SciPy, of the loss",
    "ours": "ours, float64",
    "ours_float32": "ours, float32",
    "ours_float16": "ours, float16",
    "ours_bfloat16": "ours, bfloat16",
}
CORRECT, OWN = "none", "own"
PLAIN, SMALLEST = ("normal", "uniform", "normal"), ("mixed", "random", "shifted")
SWEPT = "torch_gradcheck_loss"
_BAND = "#F0F0F0"  # behind every other fault
NO_FAULT = 1e-12  # a smaller relative error of the gradients is rounding
_ROWS = {"normal": "N(0,1)", "offset": "offset", "near_eps": "near eps", "mixed": "mixed"}
_GAMMAS = {"uniform": r"$\gamma=1$", "random": r"$\gamma$ random"}


def draw(mutation: pd.DataFrame) -> Figure:
    """One mark per fault and check, or a fault and data set; mutants by the order of the table."""
    rows = mutation[(mutation["reason"] == "") & (mutation["setting"] == "default")]
    if rows.empty:
        return _panels.empty(mutation, "Faults that gradient checks catch")
    mutants = [name for name in dict.fromkeys(rows["mutant"]) if name != CORRECT]
    swept = rows[rows["check"] == SWEPT]
    parts = (_by_check(rows, PLAIN), _by_check(rows, SMALLEST), swept.assign(column=swept["data"]))
    widths = [max(2, part["column"].nunique()) for part in parts]
    figure, axes = _panels.grid(
        1, 3, 1.55 + 0.1 * len(mutants), sharey=True, gridspec_kw={"width_ratios": widths}
    )
    for panel, part in zip(axes.flat, parts, strict=True):
        _matrix(panel, part, mutants)
    axes[0, 0].set_yticks(range(len(mutants)), mutants, fontsize=6.5)
    axes[0, 0].set_ylim(len(mutants) - 0.4, -0.6)
    for panel, label in zip(axes.flat, ("check", "check", r"data set: rows, $\gamma$"), strict=True):
        panel.set_xlabel(label)
    for panel, text in zip(axes.flat, ("usual data", "smallest set", "gradcheck, all data"), strict=True):
        _panels.subject(panel, text)
    _name_checks(axes[0, 0], parts[0])
    _name_checks(axes[0, 1], parts[1])
    _name_data(axes[0, 2], parts[2])
    figure.legend(handles=_handles(), loc="outside upper center", ncols=4)
    return figure


def _by_check(rows: pd.DataFrame, data: tuple[str, str, str]) -> pd.DataFrame:
    """The rows of one data set; a check of y draws its own dy."""
    names = {" ".join(data), " ".join((*data[:2], OWN))}
    part = rows[rows["data"].isin(names)]
    return part.assign(column=part["check"])


def _matrix(panel: Axes, part: pd.DataFrame, mutants: list[str]) -> None:
    columns = list(dict.fromkeys(part["column"]))
    alarms = set(part[(part["mutant"] == CORRECT) & (part["caught_draws"] > 0)]["column"])
    for place, column in enumerate(columns):
        if column in alarms:
            panel.axvspan(place - 0.5, place + 0.5, **style.HATCH, zorder=0.6)
    told = part[~part["column"].isin(alarms) & (part["mutant"] != CORRECT)]
    states = [_state(row) for _, row in told.iterrows()]
    for state in sorted(set(states)):
        marks = told[[state == found for found in states]]
        places = marks["column"].map(columns.index), marks["mutant"].map(mutants.index)
        panel.plot(*places, **style.look(state).point)
    panel.set_xlim(-0.7, max(len(columns), 1) - 0.3)
    for place in range(1, len(mutants), 2):
        panel.axhspan(place - 0.5, place + 0.5, color=_BAND, linewidth=0, zorder=0.5)
    panel.tick_params(length=0)
    panel.grid(False)


def _state(row: pd.Series) -> str:
    if row["caught"]:
        return "caught"
    return "missed" if row["rel_error"] > NO_FAULT else "no fault here"


def _name_checks(panel: Axes, part: pd.DataFrame) -> None:
    columns = list(dict.fromkeys(part["column"]))
    labels = [CHECKS.get(name, name) for name in columns]
    panel.set_xticks(range(len(columns)), labels, rotation=90, fontsize=6.5)


def _name_data(panel: Axes, part: pd.DataFrame) -> None:
    """One label for the data sets that differ in dy alone."""
    columns = list(dict.fromkeys(part["column"]))
    groups: dict[tuple[str, str], list[int]] = {}
    for place, name in enumerate(columns):
        rows, gamma, _ = name.split(" ")
        groups.setdefault((rows, gamma), []).append(place)
    labels = [f"{_ROWS.get(rows, rows)}, {_GAMMAS.get(gamma, gamma)}" for rows, gamma in groups]
    centres = [sum(places) / len(places) for places in groups.values()]
    panel.set_xticks(centres, labels, rotation=90, fontsize=6.5)
    for places in list(groups.values())[1:]:
        panel.axvline(places[0] - 0.5, color=style.GREY, linewidth=0.4)


def _handles() -> list[Line2D | Patch]:
    names = {"caught": "caught", "missed": "missed", "no fault here": "no fault on these data"}
    marks = [Line2D([], [], label=label, **style.look(name).point) for name, label in names.items()]
    return [*marks, Patch(label="false alarm", **style.HATCH)]

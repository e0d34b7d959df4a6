"""Claims that hold cell by cell: what the cells reach, and which are short of what is wanted."""

import numpy as np
import pandas as pd

from layernorm_backward.paper.predicates.judgement import Judgement, listing, number, over, span, verdict

KEYS = ("direction", "dtype", "gamma_dtype", "hidden", "threads", "residency")
NAMED = 6  # cells that are named one by one


def reached(cells: pd.DataFrame, column: str, good: pd.Series, wanted: str) -> Judgement:
    """What the cells of a column reach, and which of them are not `good`: short of what is wanted."""
    found = cells[column]
    return Judgement(
        verdict(bool(good.all()), bool(good.any())),
        f"{span(found)}, median {number(found.median())}",
        over(cells, *(name for name in (*KEYS, "rows") if name in cells)),
        short(cells[~good], column, len(cells), wanted),
    )


def short(cells: pd.DataFrame, column: str, many: int, wanted: str) -> str:
    """How many cells are short of what is wanted, and which: those that are furthest from it by name."""
    if cells.empty:
        return f"none of {many} cells misses {wanted}"
    names = [f"{_name_of(row)} ({number(row[column])})" for _, row in cells.iterrows()]
    more = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
    return f"{len(names)} of {many} cells miss {wanted}: {listing(names[:NAMED] + more)}"


def _name_of(cell: pd.Series) -> str:
    """A cell by its keys; with its rows where they are what varies (`axis`)."""
    rows = f"N={int(cell['rows'])} " if "axis" in cell else ""
    return f"{cell['direction']} {cell['dtype']} {rows}D={int(cell['hidden'])}"


def geometric_mean(values: pd.Series) -> float:
    """The geometric mean of positive numbers."""
    return float(np.exp(np.log(values).mean()))

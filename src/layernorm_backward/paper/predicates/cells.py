"""Claims that hold cell by cell: what the cells reach, and which are short of what is wanted."""

import numpy as np
import pandas as pd

from layernorm_backward.paper.predicates.judgement import (
    Judgement,
    listing,
    number,
    over,
    said,
    span,
    verdict,
)

KEYS = ("direction", "dtype", "gamma_dtype", "hidden", "threads", "residency")
NAMED = 6  # cells that are named one by one
Range = list[float]  # the least and the largest D, both included


def memory_cells_reach(table: pd.DataFrame, column: str, hidden: list[Range], tolerance: float) -> Judgement:
    """A fraction or ratio of times is at least the tolerance in every cell beyond the cache."""
    cells = table[table["residency"] == "memory"].dropna(subset=[column])
    cells = cells[np.logical_or.reduce([cells["hidden"].between(*limits) for limits in hidden])]
    if cells.empty:
        return nothing(table, column)
    cells = cells.sort_values(column)
    return reached(cells, column, cells[column] >= tolerance, number(tolerance))


def fastest_takes(peers: pd.DataFrame, over_ours: str, least: float, tolerance: float) -> Judgement:
    """Time of the fastest of the peers in each cell over ours: a geometric mean of at least the tolerance,
    and no cell under `least`; corrected where one of the two holds."""
    best = peers.loc[peers.groupby([*KEYS, "rows"])["ours_ratio"].idxmin()]
    ratio, mean = best["ours_ratio"], geometric_mean(best["ours_ratio"])
    lost = best[ratio < least].sort_values("ours_ratio")
    return Judgement(
        verdict(mean >= tolerance and lost.empty, mean >= tolerance or lost.empty),
        f"geometric mean {number(mean)}, {span(ratio)} over {len(best)} cells",
        f"time of the fastest of {over(peers, 'kernel')}{over_ours}; "
        + over(best, *KEYS[:2], "hidden", "threads", "residency"),
        f"a mean {said(mean >= tolerance, 'of at least', 'under')} {number(tolerance)}; "
        + short(lost, "ours_ratio", len(best), number(least)),
    )


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


def nothing(table: pd.DataFrame, what: str) -> Judgement:
    """No verdict, and the reason that most rows of the table give."""
    reasons = table.loc[table["reason"] != "", "reason"] if "reason" in table else pd.Series(dtype=str)
    told = listing(reasons.mode()[:1]) if len(reasons) else "no such cell is in this study"
    return Judgement("not measured", "", what, told)


def geometric_mean(values: pd.Series) -> float:
    """The geometric mean of positive numbers."""
    return float(np.exp(np.log(values).mean()))

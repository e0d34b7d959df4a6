"""Claims that hold cell by cell: what the cells reach, and which are short of what is wanted.

Their verdicts are those of the cells' medians; for how many cells the whole interval agrees is told.
"""

from typing import Any

import numpy as np
import pandas as pd

from layernorm_backward.paper.predicates.judgement import (
    Judgement,
    count,
    listing,
    number,
    over,
    said,
    span,
    verdict,
)

KEYS = ("direction", "dtype", "gamma_dtype", "hidden", "threads", "residency")
NAMES = ("direction", "dtype", "gamma_dtype", "hidden")  # what a cell is called by
NAMED = 6  # cells that are named one by one
Range = list[float]  # the least and the largest D, both included


def memory_cells_reach(table: pd.DataFrame, column: str, hidden: list[Range], tolerance: float) -> Judgement:
    """A fraction or ratio of times is at least the tolerance in every cell beyond the cache."""
    cells = table[table["residency"] == "memory"].dropna(subset=[column])
    cells = cells[np.logical_or.reduce([cells["hidden"].between(*limits) for limits in hidden])]
    if cells.empty:
        return nothing(table, column)
    cells = cells.sort_values(column)
    told = reached(cells, column, cells[column] >= tolerance, number(tolerance))
    sure = certainty(cells[f"{column}_high"] < tolerance, cells[f"{column}_low"] >= tolerance)
    return told._replace(reason=f"{told.reason}; {sure}")


def fastest_takes(peers: pd.DataFrame, over_ours: str, least: float, tolerance: float) -> Judgement:
    """Time of the fastest of the peers in each cell over ours: a geometric mean of at least the tolerance,
    and no cell under `least`; corrected where one of the two holds."""
    cells = peers.groupby([*KEYS, "rows"])
    best = peers.loc[cells["ours_ratio"].idxmin()]
    timed = (
        f"{name} in {part.groupby([*KEYS, 'rows']).ngroups}"
        for name, part in peers.groupby("kernel", sort=False)
    )
    ratio, mean = best["ours_ratio"], geometric_mean(best["ours_ratio"])
    lost = best[ratio < least].sort_values("ours_ratio")
    sure = certainty(best["ours_ratio_high"] < least, best["ours_ratio_low"] >= least)
    return Judgement(
        verdict(mean >= tolerance and lost.empty, mean >= tolerance or lost.empty),
        f"geometric mean {number(mean)}, {span(ratio)} over {count(len(best), 'cell')} ({listing(timed)})",
        f"time of the fastest of {over(peers, 'kernel')}{over_ours}; "
        + over(best, *KEYS[:2], "hidden", "threads", "residency"),
        f"a mean {said(mean >= tolerance, 'of at least', 'under')} {number(tolerance)}; "
        + f"{short(lost, 'ours_ratio', len(best), number(least))}; {sure}",
    )


def reached(cells: pd.DataFrame, column: str, good: pd.Series, wanted: str) -> Judgement:
    """What the cells of a column reach, and which of them are not `good`: short of what is wanted."""
    found = cells[column]
    return Judgement(
        verdict(bool(good.all()), bool(good.any())),
        f"{span(found)}, median {number(found.median())}, in {count(len(found), 'cell')}",
        over(cells, *(name for name in (*KEYS, "rows") if name in cells)),
        short(cells[~good], column, len(cells), wanted),
    )


def certainty(missed: pd.Series, reached: pd.Series) -> str:
    """How many of some cells miss or reach what is wanted with the whole of their intervals."""
    return f"with their whole intervals {int(missed.sum())} miss and {int(reached.sum())} reach it"


def short(cells: pd.DataFrame, column: str, many: int, wanted: str) -> str:
    """How many cells are short of what is wanted, and which: those that are furthest from it by name."""
    if cells.empty:
        return f"none of {count(many, 'cell')} misses {wanted}"
    alike = cells.duplicated([name for name in NAMES if name in cells], keep=False)
    told = zip(cells.to_dict("records"), alike, strict=True)
    names = [f"{_name_of(cell, rows='axis' in cell or same)} ({number(cell[column])})" for cell, same in told]
    more = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
    miss = "misses" if len(names) == 1 else "miss"
    return f"{len(names)} of {count(many, 'cell')} {miss} {wanted}: {listing(names[:NAMED] + more)}"


def _name_of(cell: dict[str, Any], *, rows: bool) -> str:
    """A cell by its keys; with its rows where they are what varies, or what tells it from another."""
    own = cell.get("gamma_dtype", cell["dtype"]) == cell["dtype"]
    gamma = "" if own else f" gamma {cell['gamma_dtype']}"
    count = f" N={int(cell['rows'])}" if rows else ""
    return f"{cell['direction']} {cell['dtype']}{gamma}{count} D={int(cell['hidden'])}"


def nothing(table: pd.DataFrame, what: str) -> Judgement:
    """No verdict, and the reason that most rows of the table give."""
    reasons = table.loc[table["reason"] != "", "reason"] if "reason" in table else pd.Series(dtype=str)
    told = listing(reasons.mode()[:1]) if len(reasons) else "no such cell is in this study"
    return Judgement("not measured", "", what, told)


def geometric_mean(values: pd.Series) -> float:
    """The geometric mean of positive numbers."""
    return float(np.exp(np.log(values).mean()))

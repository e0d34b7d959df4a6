"""Claims that are judged cell by cell: what each cell reaches, and which cells miss what is required.

A verdict follows from the medians of the cells. The reason also says in how many cells the whole confidence
interval agrees.
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
NAMES = ("direction", "dtype", "gamma_dtype", "hidden")  # the columns that name a cell
NAMED = 6  # cells named individually, at most
Range = list[float]  # the smallest and the largest D, both included


def memory_cells_reach(table: pd.DataFrame, column: str, hidden: list[Range], tolerance: float) -> Judgement:
    """A fraction or ratio of times is at least the tolerance in every cell beyond the cache."""
    cells = table[table["residency"] == "memory"].dropna(subset=[column])
    cells = cells[np.logical_or.reduce([cells["hidden"].between(*limits) for limits in hidden])]
    if cells.empty:
        return nothing(table, column)
    cells = cells.sort_values(column)
    found = reached(cells, column, cells[column] >= tolerance, number(tolerance))
    sure = certainty(cells[f"{column}_high"] < tolerance, cells[f"{column}_low"] >= tolerance)
    return found._replace(reason=f"{found.reason}; {sure}")


def fastest_takes(peers: pd.DataFrame, over_ours: str, least: float, tolerance: float) -> Judgement:
    """Time of the fastest peer of each cell over ours: its geometric mean is at least the tolerance, and no
    cell is below `least`; corrected where only one of the two holds."""
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
        f"time of {'the fastest of ' * (peers['kernel'].nunique() > 1)}{over(peers, 'kernel')}{over_ours}; "
        + over(best, *KEYS[:2], "hidden", "threads", "residency"),
        f"the geometric mean is {said(mean >= tolerance, 'at least', 'below')} {number(tolerance)}; "
        + f"{short(lost, 'ours_ratio', len(best), number(least))}; {sure}",
    )


def reached(cells: pd.DataFrame, column: str, good: pd.Series, wanted: str) -> Judgement:
    """What the cells of a column reach, and which of them miss what is `wanted`: those that are not
    `good`."""
    found = cells[column]
    return Judgement(
        verdict(bool(good.all()), bool(good.any())),
        f"{span(found)}, median {number(found.median())}, in {count(len(found), 'cell')}",
        _covered(cells),
        short(cells[~good], column, len(cells), wanted),
    )


def _covered(cells: pd.DataFrame) -> str:
    """What cells cover; the dtype of gamma where it is not that of x."""
    names = [name for name in (*KEYS, "rows") if name in cells]
    if "gamma_dtype" in names and (cells["gamma_dtype"] == cells["dtype"]).all():
        names.remove("gamma_dtype")
    return "; ".join(f"{'gamma ' * (name == 'gamma_dtype')}{over(cells, name)}" for name in names)


def certainty(missed: pd.Series, reached: pd.Series) -> str:
    """In how many cells the whole confidence interval misses, or reaches, what is required."""
    misses = count(int(missed.sum()), "cell")
    return f"the whole interval misses it in {misses} and reaches it in {int(reached.sum())}"


def short(cells: pd.DataFrame, column: str, many: int, wanted: str) -> str:
    """How many cells miss what is wanted, and the names of those furthest from it (the first of `cells`)."""
    if cells.empty:
        return f"none of {count(many, 'cell')} misses {wanted}"
    alike = cells.duplicated([name for name in NAMES if name in cells], keep=False)
    records = zip(cells.to_dict("records"), alike, strict=True)
    names = [
        f"{_name_of(cell, rows='axis' in cell or same)} ({number(cell[column])})" for cell, same in records
    ]
    more = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
    miss = "misses" if len(names) == 1 else "miss"
    return f"{len(names)} of {count(many, 'cell')} {miss} {wanted}: {listing(names[:NAMED] + more)}"


def _name_of(cell: dict[str, Any], *, rows: bool) -> str:
    """The name of a cell, from its keys; with N where N varies along an axis or distinguishes two cells."""
    own = cell.get("gamma_dtype", cell["dtype"]) == cell["dtype"]
    gamma = "" if own else f" gamma {cell['gamma_dtype']}"
    count = f" N={int(cell['rows'])}" if rows else ""
    return f"{cell['direction']} {cell['dtype']}{gamma}{count} D={int(cell['hidden'])}"


def nothing(table: pd.DataFrame, what: str) -> Judgement:
    """The judgement `not measured`, with the most frequent reason in the table."""
    reasons = table.loc[table["reason"] != "", "reason"] if "reason" in table else pd.Series(dtype=str)
    reason = listing(reasons.mode()[:1]) if len(reasons) else "this study has no such cell"
    return Judgement("not measured", "", what, reason)


def geometric_mean(values: pd.Series) -> float:
    """The geometric mean of positive numbers."""
    return float(np.exp(np.log(values).mean()))

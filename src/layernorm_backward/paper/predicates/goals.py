"""Floors and goals of the kernels: how near to the roof, how much faster than others, how little memory.

Each is judged cell by cell on the machine that was measured: confirmed where every cell reaches it, corrected
where some do, refuted where none does. A machine on which no such cell could be measured gives no verdict.
"""

import numpy as np
import pandas as pd

from layernorm_backward.paper.predicates.cells import KEYS, geometric_mean, reached, short
from layernorm_backward.paper.predicates.judgement import (
    Judgement,
    number,
    over,
    said,
    span,
    verdict,
)

Range = list[float]  # the least and the largest D, both included


def cells_reach(timing_cpu: pd.DataFrame, *, column: str, hidden: list[Range], tolerance: float) -> Judgement:
    """A fraction or ratio of times is at least the tolerance in every cell beyond the cache."""
    cells = timing_cpu.dropna(subset=[column])
    wanted = np.logical_or.reduce([cells["hidden"].between(*limits) for limits in hidden])
    cells = cells[wanted & (cells["residency"] == "memory")]
    if cells.empty:
        return _nothing(column)
    cells = cells.sort_values(column)
    return reached(cells, column, cells[column] >= tolerance, number(tolerance))


def best_peer_takes(peers_cpu: pd.DataFrame, *, ours: str, least: float, tolerance: float) -> Judgement:
    """Time of the fastest peer at its best over ours: a geometric mean over the cells of at least the
    tolerance, and no cell under `least`; corrected where one of the two holds."""
    peers = peers_cpu[peers_cpu["kernel"] != ours].dropna(subset=["ours_ratio"])
    if peers.empty:
        return _nothing("ours_ratio")
    best = peers.loc[peers.groupby([*KEYS, "rows"])["ours_ratio"].idxmin()]
    ratio, mean = best["ours_ratio"], geometric_mean(best["ours_ratio"])
    lost = best[ratio < least].sort_values("ours_ratio")
    return Judgement(
        verdict(mean >= tolerance and lost.empty, mean >= tolerance or lost.empty),
        f"geometric mean {number(mean)}, {span(ratio)} over {len(best)} cells",
        f"time of the fastest of {over(peers, 'kernel')}, each in its best setting, over {ours}'s; "
        + over(best, *KEYS[:2], "hidden", "threads", "residency"),
        f"a mean {said(mean >= tolerance, 'of at least', 'under')} {number(tolerance)}; "
        + short(lost, "ours_ratio", len(best), f"{number(least)}"),
    )


def extra_memory_is(scaling_points: pd.DataFrame, *, tolerance: float) -> Judgement:
    """Bytes beyond inputs and outputs, as a share of theirs, are at most the tolerance at every size."""
    cells = scaling_points.dropna(subset=["extra_share"])
    if cells.empty:
        return _nothing("extra_share")
    cells = cells.sort_values("extra_share", ascending=False)
    return reached(cells, "extra_share", cells["extra_share"] <= tolerance, number(tolerance))


def extra_memory_is_vectors(scaling_points: pd.DataFrame, *, bytes_each: int, tolerance: float) -> Judgement:
    """Bytes beyond inputs and outputs are at most `tolerance` vectors of D numbers for each chunk of rows."""
    cells = scaling_points.dropna(subset=["extra_bytes", "chunks"])
    if cells.empty:
        return _nothing("extra_bytes")
    each = cells["extra_bytes"] / (bytes_each * cells["hidden"] * cells["chunks"])
    cells = cells.assign(vectors=each).sort_values("vectors", ascending=False)
    return reached(cells, "vectors", cells["vectors"] <= tolerance, number(tolerance))


def _nothing(what: str) -> Judgement:
    return Judgement("not measured", "", what, "no such cell could be measured here")

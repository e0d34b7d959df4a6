"""Floors and goals of the kernels: fraction of the roof, speed relative to other packages, extra memory.

Each is judged cell by cell on the machine that was measured: confirmed if every cell reaches it, corrected if
some do, refuted if none does. Where no such cell could be measured there is no verdict.
"""

import pandas as pd

from layernorm_backward.paper.predicates.cells import (
    Range,
    fastest_takes,
    memory_cells_reach,
    nothing,
    reached,
)
from layernorm_backward.paper.predicates.judgement import Judgement, number


def cells_reach(timing_cpu: pd.DataFrame, *, column: str, hidden: list[Range], tolerance: float) -> Judgement:
    """A fraction or ratio of times is at least the tolerance in every cell beyond the cache."""
    return memory_cells_reach(timing_cpu, column, hidden, tolerance)


def best_peer_takes(peers_cpu: pd.DataFrame, *, ours: str, least: float, tolerance: float) -> Judgement:
    """Time of the fastest peer, in its best setting, over ours: see `fastest_takes`."""
    peers = peers_cpu[peers_cpu["kernel"] != ours].dropna(subset=["ours_ratio"])
    if peers.empty:
        return nothing(peers_cpu, "ours_ratio")
    each = "each in" if peers["kernel"].nunique() > 1 else "in"
    return fastest_takes(peers, f", {each} its best setting, over {ours}'s", least, tolerance)


def extra_memory_is(scaling_points: pd.DataFrame, *, tolerance: float) -> Judgement:
    """At every size the memory beyond inputs and outputs is at most the share `tolerance` of theirs."""
    cells = scaling_points.dropna(subset=["extra_share"])
    if cells.empty:
        return nothing(scaling_points, "extra_share")
    cells = cells.sort_values("extra_share", ascending=False)
    return reached(cells, "extra_share", cells["extra_share"] <= tolerance, number(tolerance))


def extra_memory_is_vectors(scaling_points: pd.DataFrame, *, bytes_each: int, tolerance: float) -> Judgement:
    """The memory beyond inputs and outputs is at most `tolerance` vectors of D numbers per chunk of rows."""
    cells = scaling_points.dropna(subset=["extra_bytes", "chunks"])
    if cells.empty:
        return nothing(scaling_points, "extra_bytes")
    each = cells["extra_bytes"] / (bytes_each * cells["hidden"] * cells["chunks"])
    cells = cells.assign(vectors=each).sort_values("vectors", ascending=False)
    return reached(cells, "vectors", cells["vectors"] <= tolerance, number(tolerance))

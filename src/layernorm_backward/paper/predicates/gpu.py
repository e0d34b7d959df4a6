"""Claims about a GPU: the published ones on its kernels, and floors and goals of ours.

Each is judged on the device that the tables are from. Tables that hold no such measurement give no verdict,
and their own reason.
"""

import numpy as np
import pandas as pd

from layernorm_backward.directions import DIRECTIONS, TENSORS
from layernorm_backward.paper.predicates.cells import (
    Range,
    fastest_takes,
    memory_cells_reach,
    nothing,
    reached,
)
from layernorm_backward.paper.predicates.forms import within_bounds
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

# The checks of results; the others, by tools, are of accesses.
RESULTS = ("results", "far", "apart", "strided", "unaligned", "repeats")
OFFSETS = 2**32  # elements: with more of them offsets of 32 bits do not do
NAMED = 4  # checks that are named one by one


def gpu_checks_pass(checks_gpu: pd.DataFrame, *, tolerance: float) -> Judgement:
    """Of the checks of results, and of repeated runs, that ran no more than `tolerance` are not passed."""
    wanted = checks_gpu[checks_gpu["check"].isin(RESULTS)]
    ran = wanted[wanted["passed"].notna()]
    if ran.empty:
        return nothing(checks_gpu, "checks of results")
    failed = ran[~ran["passed"].astype(bool)]
    kinds = ran["passed"].astype(bool).groupby(ran["check"], sort=False)
    return Judgement(
        verdict(len(failed) <= tolerance),
        f"passed: {listing(f'{_right(its)} {check}' for check, its in kinds)}",
        over(ran, "kernel", "dtype", "hidden"),
        f"not passed: {_first(failed)}; not measured: {len(wanted) - len(ran)} of {len(wanted)}"
        + _offsets(wanted[wanted["rows"] * wanted["hidden"] > OFFSETS]),
    )


def gpu_rows_stay(checks_gpu: pd.DataFrame, *, warp: int, chip: int, tolerance: float) -> Judgement:
    """Without shared memory, rows are right up to `tolerance` elements and no further; corrected where all
    longer rows are right, those on the chip as well. Refuted where rows up to `tolerance` are not right.

    `warp` and `chip` are the longest float32 rows whose sums one warp takes in both directions, and that stay
    on the chip.
    """
    checked = checks_gpu[(checks_gpu["check"] == "results") & checks_gpu["passed"].notna()]
    right, hidden = checked["passed"].astype(bool), checked["hidden"]
    short = right[hidden <= tolerance]
    further, longer = (right[hidden.between(tolerance + 1, most)] for most in (warp, chip))
    if short.empty or further.empty:
        return nothing(checks_gpu, f"results of rows up to {tolerance:g} elements, and of more")
    good = bool(short.all())
    return Judgement(
        verdict(good and not further.any(), good and bool(longer.all())),
        f"right: {_right(short)} up to D = {tolerance:g}, {_right(further)} from there to {warp}, "
        f"{_right(longer)} to {chip}",
        "cuda_fused; " + over(checked[hidden <= chip], "dtype", "hidden"),
        f"published: up to {tolerance:g} without shared memory; with several elements a lane the sums of a "
        f"float32 row of up to {warp} do without it, while the sums over rows of a block's warps, backward, "
        f"use it at any D; with it and clusters rows of {chip} stay on the chip",
    )


def gpu_sums_repeat(checks_gpu: pd.DataFrame, *, tolerance: float) -> Judgement:
    """Corrected where sums without atomics give other bits in at most `tolerance` runs of every cell: atomics
    are not needed. How sums with atomics do is not measured, so that no other verdict follows."""
    cells = checks_gpu[(checks_gpu["check"] == "repeats") & checks_gpu["passed"].notna()]
    if cells.empty:
        return nothing(checks_gpu, "repeated runs of cuda_fused, which uses no atomics")
    same = bool((cells["value"] <= tolerance).all())
    return Judgement(
        "corrected" if same else "not measured",
        f"{number(cells['value'].sum())} runs with other bits in {count(len(cells), 'cell')} without atomics",
        "cuda_fused; "
        + "; ".join(f"{dtype}: {over(its, 'hidden')}" for dtype, its in cells.groupby("dtype")),
        "sums with atomics, which add in the order of arrival, were not measured; partial rows summed in a "
        "fixed order " + said(same, "do without them and repeat their bits", "do not repeat their bits"),
    )


def gpu_launches_are(
    traffic_gpu: pd.DataFrame, *, fused: str, separate: str, low: int, high: int, tolerance: float
) -> Judgement:
    """One kernel in the place of `low` to `high`, but for `tolerance`, in each direction; corrected where the
    fused pass launches fewer than the separate one. No verdict where a direction was not counted."""
    counted = traffic_gpu.dropna(subset=["launches"])
    found = counted.groupby(["direction", "kernel"])["launches"].max().unstack()
    found = found.reindex(columns=[fused, separate]).dropna()
    missing = [way for way in DIRECTIONS if way not in found.index]
    if missing:
        return nothing(traffic_gpu, f"kernels launched {listing(missing)} by {fused} and {separate}")
    ours, theirs = found[fused], found[separate]
    as_said = (ours == 1) & theirs.between(low - tolerance, high + tolerance)
    told = (f"{number(ours[way])} in the place of {number(theirs[way])} {way}" for way in found.index)
    return Judgement(
        verdict(bool(as_said.all()), bool((ours < theirs).all())),
        listing(told),
        f"kernels of a pass, {fused} and {separate}; " + over(counted, "dtype", "hidden"),
        f"published: 1 in the place of {low} to {high}; a grid of one block a row was not measured backward, "
        "where a block walks over many rows and a second kernel adds the partial rows that blocks leave",
    )


def gpu_accesses_are(
    traffic_gpu: pd.DataFrame, *, kernel: str, accesses: dict[str, float], tolerance: float
) -> Judgement:
    """Measured bytes, as accesses of an element, are those wanted of each direction, or fewer; no verdict
    where a direction was not counted."""
    cells = traffic_gpu[(traffic_gpu["kernel"] == kernel) & traffic_gpu["direction"].isin(list(accesses))]
    cells = cells.dropna(subset=["measured_over_minimum"])
    missing = [way for way in accesses if way not in set(cells["direction"])]
    if missing:
        return nothing(traffic_gpu, f"bytes counted {listing(missing)}")
    least = cells["direction"].map(TENSORS)
    measured = cells["measured_over_minimum"] * least
    wanted = cells["direction"].map(accesses)
    fewer, same = measured < wanted - tolerance, (measured - wanted).abs() <= tolerance
    return Judgement(
        verdict(bool(same.all()), bool((fewer | same).any())),
        f"{span(measured)} accesses",
        f"{kernel}; " + over(cells, "direction", "dtype", "hidden"),
        f"{count(int(fewer.sum()), 'cell')} of {len(cells)} with fewer, {int(same.sum())} with as many",
    )


def gpu_fusion_gains(
    timing_gpu: pd.DataFrame, *, separate: str, low: float, high: float, tolerance: float
) -> Judgement:
    """Time of the separate kernels over the fused ones' is between `low` and `high`."""
    cells = timing_gpu[(timing_gpu["kernel"] == separate) & (timing_gpu["residency"] == "memory")]
    cells = cells.dropna(subset=["ours_ratio"])
    if cells.empty:
        return nothing(timing_gpu, f"times of {separate}")
    gains = cells["ours_ratio"]
    inside = gains.between(low * (1 - tolerance), high * (1 + tolerance))
    return Judgement(
        verdict(bool(inside.all()), bool((gains > 1).all())),
        f"{span(gains)} times as fast",
        f"{separate} over cuda_fused; " + over(cells, "direction", "dtype", "hidden"),
        f"{count(int(inside.sum()), 'cell')} of {len(cells)} within {number(low)} to {number(high)}",
    )


def gpu_cells_reach(
    timing_gpu: pd.DataFrame, *, column: str, hidden: list[Range], tolerance: float
) -> Judgement:
    """A fraction or ratio of times is at least the tolerance in every cell beyond the cache."""
    return memory_cells_reach(timing_gpu, column, hidden, tolerance)


def gpu_peers_take(timing_gpu: pd.DataFrame, *, ours: list[str], least: float, tolerance: float) -> Judgement:
    """Time of the fastest peer over ours, by the rule of `fastest_takes`."""
    peers = timing_gpu[~timing_gpu["kernel"].isin(ours)].dropna(subset=["ours_ratio"])
    if peers.empty:
        return nothing(timing_gpu, "times of peers")
    return fastest_takes(peers, " over ours", least, tolerance)


def gpu_traffic_is(traffic_gpu: pd.DataFrame, *, least: float, tolerance: float) -> Judgement:
    """Measured over minimal bytes are at most the tolerance in every cell, and no fewer than `least`: a count
    below it has missed some. How many cells were not counted is told."""
    cells = traffic_gpu.dropna(subset=["measured_over_minimum"])
    if cells.empty:
        return nothing(traffic_gpu, "bytes counted")
    cells = cells.sort_values("measured_over_minimum", ascending=False)
    good = cells["measured_over_minimum"].between(least, tolerance)
    told = reached(cells, "measured_over_minimum", good, f"{number(least)} to {number(tolerance)}")
    uncounted = f"not measured: {len(traffic_gpu) - len(cells)} of {len(traffic_gpu)}"
    return told._replace(value=f"{told.value}, {over(cells, 'hidden')}; {uncounted}")


def gpu_errors_stay(backward_error_gpu: pd.DataFrame, *, kappa: float, tolerance: float) -> Judgement:
    """The largest error of dx, in u, is at most the tolerance up to a kappa."""
    cells = backward_error_gpu[backward_error_gpu["kappa"] <= kappa].dropna(subset=["error_u_max"])
    if cells.empty:
        return nothing(backward_error_gpu, "errors of dx")
    worst = cells["error_u_max"].max()
    return Judgement(
        verdict(worst <= tolerance, bool((cells["error_u_max"] <= tolerance).any())),
        f"{span(cells['error_u_max'])} u",
        over(cells, "kernel", "dtype", "kappa", "hidden"),
        f"the largest is {said(worst <= tolerance, 'at most', 'above')} {number(tolerance)} u",
    )


def gpu_errors_within_bounds(backward_error_gpu: pd.DataFrame, *, tolerance: float) -> Judgement:
    """No row's error exceeds its own first-order bound by more than the factor `tolerance`.

    Archived tables may lack `bound_ratio_max`; the largest error of their cells is held against the largest
    bound of the cell.
    """
    cells = backward_error_gpu.dropna(subset=["error_u_max"])
    of_cells = cells["error_u_max"] / cells["bound_u"].where(np.isfinite(cells["bound_u"]))
    cells = cells.assign(ratio=cells["bound_ratio_max"].fillna(of_cells))
    bounded = cells.dropna(subset=["ratio"])
    if bounded.empty:
        return nothing(backward_error_gpu, "errors that have a bound")
    condition = over(bounded, "kernel", "dtype", "kappa", "hidden")
    return within_bounds(cells, "ratio", "error_u_max", condition, tolerance)


def _offsets(checks: pd.DataFrame) -> str:
    """Whether arrays that offsets of 32 bits do not reach were among the checks."""
    if checks.empty:
        return ""
    ran = checks["passed"].dropna().astype(bool)
    return f"; more than 2^32 elements: {_right(ran) if len(ran) else 'not measured'}"


def _first(checks: pd.DataFrame) -> str:
    """The first of some checks by name."""
    names = [
        f"{row.kernel} {row.check} {row.dtype} N={row.rows} D={row.hidden} "
        f"({number(row.value) if row.value == row.value else row.reason or 'no number'})"
        for row in checks[:NAMED].itertuples()
    ]
    more = [f"{len(checks) - NAMED} more"] if len(checks) > NAMED else []
    return listing(names + more)


def _right(checks: pd.Series) -> str:
    return f"{int(checks.sum())} of {len(checks)}"

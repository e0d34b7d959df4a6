"""Claims about a GPU: the published ones about kernels, and the floors and goals of ours.

Each is judged for the device on which the tables were measured. Where a table has no such measurement there
is no verdict; the reason is that of the table.
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

# The checks of results; all others use tools and check memory accesses.
RESULTS = ("results", "far", "apart", "strided", "unaligned", "repeats")
OFFSETS = 2**32  # elements: larger arrays need offsets of more than 32 bits
NAMED = 4  # checks named individually, at most


def gpu_checks_pass(checks_gpu: pd.DataFrame, *, tolerance: float) -> Judgement:
    """At most `tolerance` of the checks of results and of repeated runs fail, of those that ran."""
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
    """Without shared memory, results are correct for rows of up to `tolerance` elements and for no longer
    ones; corrected where they are correct for all longer rows too, up to those that stay on the chip. Refuted
    where they are incorrect up to `tolerance`.

    `warp` is the length of the longest float32 row that one warp sums in both directions, `chip` that of the
    longest that stays on the chip.
    """
    checked = checks_gpu[(checks_gpu["check"] == "results") & checks_gpu["passed"].notna()]
    right, hidden = checked["passed"].astype(bool), checked["hidden"]
    short = right[hidden <= tolerance]
    further, longer = (right[hidden.between(tolerance + 1, most)] for most in (warp, chip))
    if short.empty or further.empty:
        return nothing(checks_gpu, f"results of rows of up to {tolerance:g} elements, and of longer ones")
    good = bool(short.all())
    return Judgement(
        verdict(good and not further.any(), good and bool(longer.all())),
        f"correct: {_right(short)} up to D = {tolerance:g}, {_right(further)} from there to {warp}, "
        f"{_right(longer)} to {chip}",
        "cuda_fused; " + over(checked[hidden <= chip], "dtype", "hidden"),
        f"published: up to {tolerance:g} without shared memory; with several elements per lane the sums of a "
        f"float32 row of up to {warp} need none, but backward a block adds the sums over rows of its warps "
        f"in shared memory at any D; with shared memory and clusters, rows of up to {chip} stay on the chip",
    )


def gpu_sums_repeat(checks_gpu: pd.DataFrame, *, tolerance: float) -> Judgement:
    """Corrected where sums without atomics give different bits in at most `tolerance` runs of every cell:
    atomics are not needed. Sums with atomics are not measured, so no other verdict is possible."""
    cells = checks_gpu[(checks_gpu["check"] == "repeats") & checks_gpu["passed"].notna()]
    if cells.empty:
        return nothing(checks_gpu, "repeated runs of cuda_fused, which uses no atomics")
    same = bool((cells["value"] <= tolerance).all())
    return Judgement(
        "corrected" if same else "not measured",
        f"{number(cells['value'].sum())} runs with different bits in {count(len(cells), 'cell')}, without "
        "atomics",
        "cuda_fused; "
        + "; ".join(f"{dtype}: {over(its, 'hidden')}" for dtype, its in cells.groupby("dtype")),
        "sums with atomics, which add in the order of arrival, were not measured; sums of partial rows in a "
        "fixed order " + said(same, "need none, and their bits repeat", "do not repeat their bits"),
    )


def gpu_launches_are(
    traffic_gpu: pd.DataFrame, *, fused: str, separate: str, low: int, high: int, tolerance: float
) -> Judgement:
    """In each direction the fused pass launches one kernel, the separate one `low` to `high`, give or take
    `tolerance`; corrected where the fused pass launches fewer. No verdict where a direction was not
    counted."""
    counted = traffic_gpu.dropna(subset=["launches"])
    found = counted.groupby(["direction", "kernel"])["launches"].max().unstack()
    found = found.reindex(columns=[fused, separate]).dropna()
    missing = [way for way in DIRECTIONS if way not in found.index]
    if missing:
        return nothing(traffic_gpu, f"kernels launched {listing(missing)} by {fused} and {separate}")
    ours, theirs = found[fused], found[separate]
    as_said = (ours == 1) & theirs.between(low - tolerance, high + tolerance)
    counts = (f"{number(ours[way])} instead of {number(theirs[way])} {way}" for way in found.index)
    return Judgement(
        verdict(bool(as_said.all()), bool((ours < theirs).all())),
        listing(counts),
        f"kernel launches per pass, {fused} and {separate}; " + over(counted, "dtype", "hidden"),
        f"published: 1 instead of {low} to {high}; a grid of one block per row was not measured backward, "
        "where each block takes many rows and a second kernel adds the partial sums of the blocks",
    )


def gpu_accesses_are(
    traffic_gpu: pd.DataFrame, *, kernel: str, accesses: dict[str, float], tolerance: float
) -> Judgement:
    """Accesses per element, from measured bytes, are those given for each direction; corrected where some
    cells have as many or fewer. No verdict where a direction was not counted."""
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
        f"{span(measured)} accesses per element",
        f"{kernel}; " + over(cells, "direction", "dtype", "hidden"),
        f"{count(int(fewer.sum()), 'cell')} of {len(cells)} have fewer, {int(same.sum())} have as many",
    )


def gpu_fusion_gains(
    timing_gpu: pd.DataFrame, *, separate: str, low: float, high: float, tolerance: float
) -> Judgement:
    """The ratio of the time of the separate kernels to that of the fused ones is between `low` and `high`."""
    cells = timing_gpu[(timing_gpu["kernel"] == separate) & (timing_gpu["residency"] == "memory")]
    cells = cells.dropna(subset=["ours_ratio"])
    if cells.empty:
        return nothing(timing_gpu, f"times of {separate}")
    gains = cells["ours_ratio"]
    inside = gains.between(low * (1 - tolerance), high * (1 + tolerance))
    return Judgement(
        verdict(bool(inside.all()), bool((gains > 1).all())),
        f"{span(gains)} times as fast",
        f"time of {separate} over that of cuda_fused; " + over(cells, "direction", "dtype", "hidden"),
        f"{count(int(inside.sum()), 'cell')} of {len(cells)} within {number(low)} to {number(high)}",
    )


def gpu_cells_reach(
    timing_gpu: pd.DataFrame, *, column: str, hidden: list[Range], tolerance: float
) -> Judgement:
    """A fraction or ratio of times is at least the tolerance in every cell beyond the cache."""
    return memory_cells_reach(timing_gpu, column, hidden, tolerance)


def gpu_peers_take(timing_gpu: pd.DataFrame, *, ours: list[str], least: float, tolerance: float) -> Judgement:
    """Time of the fastest peer over ours: see `fastest_takes`."""
    peers = timing_gpu[~timing_gpu["kernel"].isin(ours)].dropna(subset=["ours_ratio"])
    if peers.empty:
        return nothing(timing_gpu, "times of peers")
    return fastest_takes(peers, " over ours", least, tolerance)


def gpu_traffic_is(traffic_gpu: pd.DataFrame, *, least: float, tolerance: float) -> Judgement:
    """The ratio of measured to minimum bytes is at most the tolerance in every cell, and at least `least`: a
    smaller count has missed some. The value says how many cells were not counted."""
    cells = traffic_gpu.dropna(subset=["measured_over_minimum"])
    if cells.empty:
        return nothing(traffic_gpu, "bytes counted")
    cells = cells.sort_values("measured_over_minimum", ascending=False)
    good = cells["measured_over_minimum"].between(least, tolerance)
    found = reached(cells, "measured_over_minimum", good, f"{number(least)} to {number(tolerance)}")
    uncounted = f"not measured: {len(traffic_gpu) - len(cells)} of {len(traffic_gpu)}"
    return found._replace(value=f"{found.value}, {over(cells, 'hidden')}; {uncounted}")


def gpu_errors_stay(backward_error_gpu: pd.DataFrame, *, kappa: float, tolerance: float) -> Judgement:
    """The largest error of dx, in u, is at most the tolerance up to `kappa`."""
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

    Where an archived table lacks `bound_ratio_max`, the largest error of a cell is compared with the largest
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
    """How many checks passed of those on arrays too large for offsets of 32 bits."""
    if checks.empty:
        return ""
    ran = checks["passed"].dropna().astype(bool)
    return f"; more than 2^32 elements: {_right(ran) if len(ran) else 'not measured'}"


def _first(checks: pd.DataFrame) -> str:
    """The names of the first checks, with their values or reasons."""
    names = [
        f"{row.kernel} {row.check} {row.dtype} N={row.rows} D={row.hidden} "
        f"({number(row.value) if row.value == row.value else row.reason or 'no number'})"
        for row in checks[:NAMED].itertuples()
    ]
    more = [f"{len(checks) - NAMED} more"] if len(checks) > NAMED else []
    return listing(names + more)


def _right(checks: pd.Series) -> str:
    return f"{int(checks.sum())} of {len(checks)}"

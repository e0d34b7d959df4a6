"""Claims about operations and accesses for each element of x: tables traffic_cpu and traffic_steps."""

import pandas as pd

from layernorm_backward.directions import DIRECTIONS
from layernorm_backward.paper.predicates.judgement import (
    Judgement,
    among,
    listing,
    number,
    over,
    pick,
    said,
    span,
    verdict,
)

SEPARATE = ("separate", "compact")


def reductions_are(
    traffic_cpu: pd.DataFrame, edge_cases: pd.DataFrame, *, expected: int, tolerance: float
) -> Judgement:
    """The backward pass makes so many reductions over D, and is right without x."""
    found = pick(traffic_cpu, "reductions").astype(int)
    right = bool(pick(edge_cases, "passed").astype(bool).all())
    agree = bool(((found - expected).abs() <= tolerance).all())
    return Judgement(
        verdict(agree and right, right),
        f"{span(found)} reductions over D; dx {said(right, 'right', 'wrong')} with x overwritten",
        over(traffic_cpu, "kernel", "direction", "dtype"),
        f"published: {expected}; "
        + said(right, "nothing is computed again from x", "x is read, or computed with, again"),
    )


def accesses_are(
    traffic_cpu: pd.DataFrame, *, separate: float, fused: dict[str, float], tolerance: float
) -> Judgement:
    """Separate passes make about `separate` accesses an element, the fused scheme those of `fused`."""
    found = traffic_cpu.groupby(["kernel", "direction"])["accesses_per_element"].median().dropna()
    pick(traffic_cpu, "accesses_per_element")
    kernels = dict.fromkeys([*found.index.get_level_values("kernel"), *SEPARATE, "fused"])
    among(found.index, *((name, way) for name in kernels for way in DIRECTIONS))
    counts = {name: {way: float(found[name, way]) for way in DIRECTIONS} for name in kernels}
    near = [abs(counts[name][way] / separate - 1) <= tolerance for name in SEPARATE for way in DIRECTIONS]
    same = all(abs(counts["fused"][way] / count - 1) <= tolerance for way, count in fused.items())
    return Judgement(
        verdict(all(near) and same, any(near) and same),
        "; ".join(f"{name}: {_both(count)}" for name, count in counts.items()),
        f"CPU; {over(traffic_cpu, 'dtype')}; elements of x's size read or written, from memory or cache",
        f"published: about {number(separate)}, {_both(fused)}; of the fused ones 2 and 3 go to memory; "
        "claims about a GPU are judged by themselves",
    )


def operations_are(traffic_cpu: pd.DataFrame, *, published: dict[str, float], tolerance: float) -> Judgement:
    """Operations an element, counted by running the kernel, are those published within the share given."""
    column = "counted_operations_per_element"
    found = {way: float(pick(traffic_cpu, column, direction=way).median()) for way in DIRECTIONS}
    near = {way: abs(found[way] / published[way] - 1) <= tolerance for way in DIRECTIONS}
    ratio, expected = (count["backward"] / count["forward"] for count in (found, published))
    return Judgement(
        verdict(all(near.values()), any(near.values()) or abs(ratio / expected - 1) <= tolerance),
        f"{_both(found)}, {number(sum(found.values()))} in all; backward/forward {number(ratio)}",
        f"{over(traffic_cpu, 'kernel', 'dtype')}; each ufunc and each addition of a sum counts once",
        f"published: {_both(published)}, ratio {number(expected)}; allowed: {number(100 * tolerance)} % off",
    )


def passes_are(traffic_steps: pd.DataFrame, *, expected: int, tolerance: float) -> Judgement:
    """So many steps touch whole arrays, in each direction; corrected up to three times as many."""
    whole = traffic_steps[traffic_steps["reads"] + traffic_steps["writes"] >= 1]
    found = {way: len(pick(whole, "step", direction=way)) for way in DIRECTIONS}
    agree = all(abs(count - expected) <= tolerance for count in found.values())
    return Judgement(
        verdict(agree, all(count <= 3 * expected for count in found.values())),
        f"{_both(found)} passes over arrays of x's size",
        f"{over(traffic_steps, 'kernel')}; NumPy, one pass for each ufunc and reduction",
        f"published: {expected} in each direction",
    )


def traffic_is(
    traffic_cpu: pd.DataFrame, *, over_least: dict[str, dict[str, float]], tolerance: float
) -> Judgement:
    """Modelled bytes over the least are at most those given for a kind of store and a direction, within the
    share `tolerance`."""
    ratios = traffic_cpu.assign(ratio=traffic_cpu["modelled_bytes"] / traffic_cpu["minimum_bytes"])
    for way in DIRECTIONS:
        pick(ratios, "ratio", direction=way)
    kinds = {kind: part for kind, part in ratios.dropna(subset=["ratio"]).groupby("stores", sort=False)}
    most = {kind: part.groupby("direction")["ratio"].max() for kind, part in kinds.items()}
    good = all(
        ratio <= over_least[kind][way] * (1 + tolerance)
        for kind, found in most.items()
        for way, ratio in found.items()
    )
    told = (f"{listing(f'{number(it)} {way}' for way, it in most[kind].items())} ({kind})" for kind in most)
    allowed = (f"{_both(most_allowed)} ({kind} stores)" for kind, most_allowed in over_least.items())
    return Judgement(
        verdict(good),
        f"modelled over least bytes at most {'; '.join(told)}",
        over(traffic_cpu, "kernel", "dtype", "stores", "rows", "hidden"),
        f"allowed: {listing(allowed)}, {number(100 * tolerance)} % more",
    )


def _both(counts: dict[str, float]) -> str:
    return listing(f"{number(counts[way])} {way}" for way in DIRECTIONS)

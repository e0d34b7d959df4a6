"""Claims about operations and accesses per element of x: tables traffic_cpu and traffic_steps."""

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
    """The backward pass makes `expected` reductions over D, and is correct without x; corrected where only
    the latter holds."""
    found = pick(traffic_cpu, "reductions").astype(int)
    right = bool(pick(edge_cases, "passed").astype(bool).all())
    agree = bool(((found - expected).abs() <= tolerance).all())
    return Judgement(
        verdict(agree and right, right),
        f"{span(found)} reductions over D; dx {said(right, 'correct', 'incorrect')} with x overwritten",
        over(traffic_cpu, "kernel", "direction", "dtype"),
        f"published: {expected}; "
        + said(right, "nothing is recomputed from x", "x is read again, or something is recomputed from it"),
    )


def accesses_are(
    traffic_cpu: pd.DataFrame, *, separate: float, fused: dict[str, float], tolerance: float
) -> Judgement:
    """Separate passes make about `separate` accesses per element, the fused scheme those of `fused`."""
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
        f"CPU; {over(traffic_cpu, 'dtype')}; elements of x's size read or written, in memory or in a cache",
        f"published: about {number(separate)}, {_both(fused)}; 2 and 3 of the fused ones go to memory; "
        "claims about a GPU are judged separately",
    )


def operations_are(traffic_cpu: pd.DataFrame, *, published: dict[str, float], tolerance: float) -> Judgement:
    """Operations per element, counted by running the kernel, are within the share `tolerance` of the
    published ones; corrected where those of one direction are, or their ratio is."""
    column = "counted_operations_per_element"
    found = {way: float(pick(traffic_cpu, column, direction=way).median()) for way in DIRECTIONS}
    near = {way: abs(found[way] / published[way] - 1) <= tolerance for way in DIRECTIONS}
    ratio, expected = (count["backward"] / count["forward"] for count in (found, published))
    return Judgement(
        verdict(all(near.values()), any(near.values()) or abs(ratio / expected - 1) <= tolerance),
        f"{_both(found)}, {number(sum(found.values()))} in all; ratio backward/forward {number(ratio)}",
        f"{over(traffic_cpu, 'kernel', 'dtype')}; each ufunc and each addition in a sum counts as one",
        f"published: {_both(published)}, ratio {number(expected)}; allowed: {number(100 * tolerance)} % off",
    )


def passes_are(traffic_steps: pd.DataFrame, *, expected: int, tolerance: float) -> Judgement:
    """In each direction `expected` steps touch whole arrays; corrected where up to three times as many do."""
    whole = traffic_steps[traffic_steps["reads"] + traffic_steps["writes"] >= 1]
    found = {way: len(pick(whole, "step", direction=way)) for way in DIRECTIONS}
    agree = all(abs(count - expected) <= tolerance for count in found.values())
    return Judgement(
        verdict(agree, all(count <= 3 * expected for count in found.values())),
        f"{_both(found)} passes over arrays of x's size",
        f"{over(traffic_steps, 'kernel')}; NumPy, one pass per ufunc and reduction",
        f"published: {expected} in each direction",
    )


def traffic_is(
    traffic_cpu: pd.DataFrame, *, over_least: dict[str, dict[str, float]], tolerance: float
) -> Judgement:
    """The ratio of modelled to minimum bytes is at most that of `over_least` for the kind of stores and the
    direction, within the share `tolerance`."""
    ratios = traffic_cpu.assign(ratio=traffic_cpu["modelled_bytes"] / traffic_cpu["minimum_bytes"])
    for way in DIRECTIONS:
        pick(ratios, "ratio", direction=way)
    kinds = {kind: part for kind, part in ratios.dropna(subset=["ratio"]).groupby("stores", sort=False)}
    most = {kind: part.groupby("direction")["ratio"].max() for kind, part in kinds.items()}
    good = all(
        ratio <= over_least[kind][way] * (1 + tolerance)
        for kind, largest in most.items()
        for way, ratio in largest.items()
    )
    found = (f"{listing(f'{number(it)} {way}' for way, it in most[kind].items())} ({kind})" for kind in most)
    allowed = (f"{_both(most_allowed)} ({kind} stores)" for kind, most_allowed in over_least.items())
    return Judgement(
        verdict(good),
        f"ratio of modelled to minimum bytes at most {'; '.join(found)}",
        over(traffic_cpu, "kernel", "dtype", "stores", "rows", "hidden"),
        f"allowed: {listing(allowed)}, and {number(100 * tolerance)} % more",
    )


def _both(counts: dict[str, float]) -> str:
    return listing(f"{number(counts[way])} {way}" for way in DIRECTIONS)

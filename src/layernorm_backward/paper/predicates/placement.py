"""Claims about the effect of eps on the gradient: table eps_placement."""

import pandas as pd

from layernorm_backward.paper.predicates.judgement import (
    Judgement,
    NothingMeasured,
    among,
    number,
    over,
    pick,
    said,
    span,
    verdict,
)


def eps_changes_dx(eps_placement: pd.DataFrame, *, below: float, above: float, tolerance: float) -> Judgement:
    """eps changes dx by more than the tolerance up to a variance of `below`*eps, and by less from a variance
    of `above`*eps on."""
    ratio = eps_placement["variance"] / eps_placement["eps"]
    small = pick(eps_placement[(ratio > 0) & (ratio <= below)], "dx_change")
    large = pick(eps_placement[ratio >= above], "dx_change")
    return Judgement(
        verdict(small.min() > tolerance and large.max() < tolerance),
        f"dx changes by at least {number(small.min())} up to a variance of {number(below)} eps, and by at "
        f"most {number(large.max())} from {number(above)} eps on",
        _condition(eps_placement),
        f"limit: {number(tolerance)}; {len(small)} and {len(large)} cells",
    )


def eps_change_is_first_order(eps_placement: pd.DataFrame, *, share: float, tolerance: float) -> Judgement:
    """While eps/(var + eps) is at most `share`, dx changes as first-order theory predicts."""
    rows = eps_placement[eps_placement["eps_share"] <= share]
    pick(rows, "dx_change")
    ratio = rows["dx_change"] / rows["dx_first_order"]
    return Judgement(
        verdict(bool(((ratio - 1).abs() <= tolerance).all())),
        f"ratio of change to prediction {span(ratio)} in {len(ratio)} cells",
        _condition(rows),
        f"allowed: within {number(tolerance)} of 1",
    )


def stored_eps_vanishes(eps_placement: pd.DataFrame, *, tolerance: float) -> Judgement:
    """Stored in the dtype, every eps up to the tolerance is zero, and no larger one is."""
    zero = pick(eps_placement, "eps_used") == 0
    small = eps_placement.loc[zero.index, "eps"] <= tolerance
    if small.all() or not small.any():
        raise NothingMeasured(f"eps_used was not measured on both sides of eps {number(tolerance)}")
    good = bool((zero == small).all())
    lost = eps_placement.loc[zero.index[zero], "eps"]
    return Judgement(
        verdict(good),
        f"stored as zero: {span(lost) if len(lost) else 'none'}",
        _condition(eps_placement),
        f"expected: all up to {number(tolerance)}",
    )


def gradient_exists(
    eps_placement: pd.DataFrame, *, where: list[str], nowhere: list[str], tolerance: float
) -> Judgement:
    """dx is finite for the placements `where` and not for `nowhere`, except in at most `tolerance` cells."""
    pick(eps_placement, "finite")
    among(eps_placement["placement"], *where, *nowhere)
    finite = eps_placement["finite"].astype(bool)
    wrong = (
        eps_placement["placement"].isin(where) & ~finite | eps_placement["placement"].isin(nowhere) & finite
    )
    return Judgement(
        verdict(int(wrong.sum()) <= tolerance),
        f"dx finite in {int(finite.sum())} of {len(finite)} cells",
        _condition(eps_placement),
        said(bool(wrong.any()), f"{int(wrong.sum())} cells differ from that", "as expected in every cell"),
    )


def _condition(rows: pd.DataFrame) -> str:
    return f"eps {over(rows, 'placement', 'dtype', 'eps', 'variance')}; dy {over(rows, 'upstream')}"

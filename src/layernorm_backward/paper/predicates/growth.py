"""Claims about growth with N and D: table scaling, exponents with their intervals."""

import pandas as pd

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


def grows_linearly(scaling: pd.DataFrame, *, tolerance: float) -> Judgement:
    """Every exponent is 1 within the tolerance or its interval; corrected where all are below 1.5.

    A fit of times crosses from the cache to memory, which lifts the exponent without any growth in the work.
    """
    rows = scaling.loc[pick(scaling, "exponent").index]
    found = rows["exponent"]
    linear = (found - 1).abs() <= tolerance
    linear |= (rows["exponent_low"] <= 1) & (rows["exponent_high"] >= 1)
    others = (f"{row.kernel} {row.direction} {row.axis} {row.quantity}" for row in rows[~linear].itertuples())
    return Judgement(
        verdict(bool(linear.all()), bool((found < 1.5).all())),
        "; ".join(f"exponent of {name} {span(part)}" for name, part in found.groupby(rows["quantity"])),
        _what(rows),
        f"not 1 within {tolerance:g} or the interval: {listing(others)}; fits cross from cache to memory",
    )


def memory_is_constant(
    scaling: pd.DataFrame, scaling_points: pd.DataFrame, *, published: str, bytes_each: int, tolerance: float
) -> Judgement:
    """The published kernel's memory does not grow; corrected where it grows by input and output alone."""
    exponent = pick(scaling, "exponent", kernel=published).max()
    points = scaling_points.assign(elements=scaling_points["rows"] * scaling_points["hidden"])
    largest = points[points["elements"] == points["elements"].max()]
    extra = (largest["peak_bytes"] / (bytes_each * largest["elements"]) - 2).rename("extra").astype(float)
    extra = pick(extra.to_frame(), "extra").groupby(largest["kernel"]).max()
    among(extra.index, published)
    return Judgement(
        verdict(exponent <= tolerance, extra[published] <= tolerance),
        f"{published}: exponent {number(exponent)}; arrays of x's size beyond input and output: "
        + listing(f"{number(round(value, 3))} ({name})" for name, value in extra.items()),
        f"{over(scaling_points, 'direction', 'axis', 'rows', 'hidden', 'dtype')}; all alive at the peak",
        f"{published} {said(extra[published] <= tolerance, 'makes its output only', 'makes temporaries')}; "
        "the output alone is O(BTD)",
    )


def _what(scaling: pd.DataFrame) -> str:
    return over(scaling, "kernel", "direction", "axis", "quantity", "points")

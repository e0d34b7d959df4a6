"""Claims about growth with N and D: table scaling (exponents with their intervals)."""

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

STEEP = 1.5  # growth with this exponent or a larger one is not linear


def grows_linearly(scaling: pd.DataFrame, *, tolerance: float) -> Judgement:
    """The whole interval of every exponent is within the tolerance of 1.

    Corrected where all intervals end below STEEP and one excludes 1; refuted where an exponent is STEEP or
    more. There is no verdict where an interval is missing, where one reaches STEEP, or where one is too wide
    and none excludes 1. A fit over times crosses from the cache to memory, which raises the exponent although
    the work grows no faster.
    """
    rows = scaling.loc[pick(scaling, "exponent").index]
    found, ends = rows["exponent"], rows[["exponent_low", "exponent_high"]]
    linear = ((ends - 1).abs() <= tolerance).all(axis=1)
    others = (f"{row.kernel} {row.direction} {row.axis} {row.quantity}" for row in rows[~linear].itertuples())
    hold = (rows["exponent_low"] <= 1) & (rows["exponent_high"] >= 1)
    below, open_yet = bool((rows["exponent_high"] < STEEP).all()), bool((linear | hold).all())
    unsure = bool((found < STEEP).all()) and (not below or open_yet) and not linear.all()
    return Judgement(
        "not measured" if unsure else verdict(bool(linear.all()), below),
        "" if unsure else _spans(rows),
        _what(rows),
        f"{int(linear.sum())} of {len(linear)} intervals are within {tolerance:g} of 1; the others are "
        f"{listing(others)}, of which {int((hold & ~linear).sum())} contain 1 but are too wide to decide; "
        "fits cross from cache to memory",
    )


def memory_is_constant(
    scaling: pd.DataFrame, scaling_points: pd.DataFrame, *, published: str, bytes_each: int, tolerance: float
) -> Judgement:
    """The memory of the published kernel does not grow; corrected where only its input and output do."""
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
        f"{over(scaling_points, 'direction', 'axis', 'rows', 'hidden', 'dtype')}; when memory peaks",
        f"{published} {said(extra[published] <= tolerance, 'makes its output only', 'makes temporaries')}; "
        "the output alone is O(BTD)",
    )


def _what(scaling: pd.DataFrame) -> str:
    return over(scaling, "kernel", "direction", "axis", "quantity", "points")


def _spans(rows: pd.DataFrame) -> str:
    parts = rows.groupby("quantity")
    ranges = (
        (name, span(part["exponent"]), span([part["exponent_low"].min(), part["exponent_high"].max()]))
        for name, part in parts
    )
    return "; ".join(f"exponent of {name} {values} (intervals {ends})" for name, values, ends in ranges)

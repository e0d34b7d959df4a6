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

STEEP = 1.5  # an exponent from here on is not that of linear growth


def grows_linearly(scaling: pd.DataFrame, *, tolerance: float) -> Judgement:
    """Every exponent's whole interval is within the tolerance of 1; corrected where all intervals end
    below STEEP and one leaves 1 out, refuted where an exponent is not below STEEP. No verdict where an
    interval is missing or leaves that open: reaches STEEP, or is too wide and none leaves 1 out.

    A fit of times crosses from the cache to memory, which lifts the exponent without any growth in the work.
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
        f"{int(linear.sum())} of {len(linear)} intervals lie within {tolerance:g} of 1; not those of "
        f"{listing(others)}, of which {int((hold & ~linear).sum())} hold 1 and are too wide to tell; "
        "fits cross from cache to memory",
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


def _spans(rows: pd.DataFrame) -> str:
    parts = rows.groupby("quantity")
    told = (
        (name, span(part["exponent"]), span([part["exponent_low"].min(), part["exponent_high"].max()]))
        for name, part in parts
    )
    return "; ".join(f"exponent of {name} {values} (intervals {ends})" for name, values, ends in told)

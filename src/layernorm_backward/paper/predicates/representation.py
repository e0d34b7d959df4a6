"""Claims that separate the error of rounding the input from that of the algorithm: table representation."""

import pandas as pd

from layernorm_backward.dtypes import dtype_of, unit_roundoff
from layernorm_backward.paper.predicates.forms import grows_as, ratio
from layernorm_backward.paper.predicates.judgement import (
    Judgement,
    number,
    over,
    pick,
    said,
    slope,
    span,
    verdict,
)


def little_is_added(representation: pd.DataFrame, *, tolerance: float) -> Judgement:
    """Against the exact result for the rounded row, every error is at most the tolerance, in u."""
    added = pick(_in_u(representation), "added")
    return Judgement(
        verdict(bool((added <= tolerance).all())),
        f"errors up to {number(added.max())} u; representation errors up to "
        + number(representation["representation_error"].max()),
        _what(representation),
        f"allowed: {number(tolerance)} u; {len(added)} cells",
    )


def rounding_grows(representation: pd.DataFrame, *, expected: float, tolerance: float) -> Judgement:
    """The representation error grows as kappa to the expected power, for every dtype and upstream
    gradient."""
    pick(representation, "representation_error")
    parts = representation.dropna(subset=["representation_error"]).groupby(["dtype", "upstream"])
    found = {" ".join(key): slope(part["kappa"], part["representation_error"]) for key, part in parts}
    return grows_as(found, _what(representation), expected, tolerance)


def exceeds_rounding(representation: pd.DataFrame, *, tolerance: float) -> Judgement:
    """The error of the algorithm is at least `tolerance` times the representation error in every cell;
    corrected where it is in some."""
    ratios = ratio(representation, "error_max", "representation_error")
    more = ratios >= tolerance
    return Judgement(
        verdict(bool(more.all()), bool(more.any())),
        f"ratio of the error of the algorithm to the representation error {span(ratios)}",
        _what(representation),
        f"{int(more.sum())} of {len(ratios)} cells reach {number(tolerance)}",
    )


def errs_on_exact_rows(representation: pd.DataFrame, *, tolerance: float) -> Judgement:
    """On rows that the dtype represents exactly, the error exceeds the tolerance, in u, in every cell;
    corrected where it does in some."""
    added = pick(_in_u(representation), "added")
    exact = bool((pick(representation, "representation_error") == 0).all())
    wrong = added > tolerance
    return Judgement(
        verdict(exact and bool(wrong.all()), exact and bool(wrong.any())),
        f"errors {span(added)} u; the rows are {said(exact, 'represented exactly', 'rounded')}",
        _what(representation),
        f"{int(wrong.sum())} of {len(added)} cells exceed {number(tolerance)} u",
    )


def _in_u(representation: pd.DataFrame) -> pd.DataFrame:
    u = representation["dtype"].map(lambda name: unit_roundoff(dtype_of(name)))
    return representation.assign(added=representation["error_max"] / u)


def _what(table: pd.DataFrame) -> str:
    columns = over(table, "algorithm", "dtype", "accumulator", "quantity", "upstream", "hidden", "offset")
    return f"{over(table, 'data')} rows; {columns}"

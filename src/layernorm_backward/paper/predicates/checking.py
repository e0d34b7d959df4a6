"""Claims about gradient checks by differences: table gradient_check."""

import pandas as pd

from layernorm_backward.paper.predicates.judgement import (
    Judgement,
    count,
    listing,
    number,
    over,
    pick,
    span,
    verdict,
)


def gradient_error_is(
    gradient_check: pd.DataFrame, *, published: float, right: float, tolerance: float
) -> Judgement:
    """The published error is among those of a method of differences, within a factor; corrected where it is
    among those of none, and all are below `right`. Its measure is the published one: the largest difference
    over the sum of the largest magnitudes."""
    errors = pick(gradient_check, "max_norm_error")
    methods = dict(list(errors.groupby(gradient_check["method"])))
    near = [name for name, found in methods.items() if _within(found, published, tolerance)]
    told = (f"{span(it)} in {count(len(it), 'check')} ({name})" for name, it in methods.items())
    return Judgement(
        verdict(bool(near), errors.max() < right),
        f"relative error {listing(told)}; published {number(published)}",
        _what(gradient_check),
        f"the published number is within a factor {number(tolerance)} of those of {_methods(near)}; "
        "its method and its random draw are not known",
    )


def gradient_difference_is(
    gradient_check: pd.DataFrame, *, published: dict[str, float], right: float, tolerance: float
) -> Judgement:
    """The largest absolute difference is the published one within a factor, at each shape."""
    found = {shape: pick(gradient_check, "max_abs_error", shape=shape) for shape in published}
    near = [_within(values, published[shape], tolerance) for shape, values in found.items()]
    return Judgement(
        verdict(all(near), max(values.max() for values in found.values()) < right),
        listing(
            f"{span(it)} at {shape} (published {number(published[shape])})" for shape, it in found.items()
        ),
        _what(gradient_check),
        f"{sum(near)} of {len(near)} shapes agree within a factor {number(tolerance)}; the published step "
        "and draw are not known",
    )


def spot_check_replaces(gradient_check: pd.DataFrame, *, right: float, tolerance: float) -> Judgement:
    """A check of some rows finds errors below `right`, and misses at most `tolerance` of the gradients."""
    rows = gradient_check[gradient_check["scope"] == "rows"]
    along_rows = gradient_check[gradient_check["scope"] == "directions"]
    seen, along = pick(rows, "rel_error"), pick(along_rows, "rel_error")
    missed = sorted(set(gradient_check["quantity"]) - set(rows["quantity"]))
    good = bool(seen.max() < right)
    return Judgement(
        verdict(good and len(missed) <= tolerance, good),
        f"error of some rows {span(seen)} ({over(rows, 'quantity')}); along random directions {span(along)}",
        _what(gradient_check),
        f"not checked by rows: {listing(missed)}; along random directions: {over(along_rows, 'quantity')}",
    )


def _methods(names: list[str]) -> str:
    return listing(names) if names else "no method"


def _within(values: pd.Series, published: float, factor: float) -> bool:
    return bool(values.min() / factor <= published <= values.max() * factor)


def _what(gradient_check: pd.DataFrame) -> str:
    return f"float64; {over(gradient_check, 'kernel', 'quantity', 'method', 'step', 'shape', 'scope')}"

"""Claims about gradient checks by differences: table gradient_check."""

import pandas as pd

from layernorm_backward.paper.predicates.judgement import (
    Judgement,
    count,
    listing,
    number,
    over,
    pick,
    said,
    span,
    verdict,
)


def gradient_error_is(
    gradient_check: pd.DataFrame, *, published: float, right: float, tolerance: float
) -> Judgement:
    """The published error is among those measured, within a factor; corrected below `right`."""
    errors = pick(gradient_check, "rel_error")
    near = _within(errors, published, tolerance)
    return Judgement(
        verdict(near, errors.max() < right),
        f"relative error {span(errors)} in {count(len(errors), 'check')} (published {number(published)})",
        _what(gradient_check),
        f"the published number is {said(near, 'within', 'not within')} a factor {number(tolerance)} of them; "
        "its random draw is not known",
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
    seen, along = pick(rows, "rel_error"), pick(gradient_check, "rel_error", scope="directions")
    missed = sorted(set(gradient_check["quantity"]) - set(rows["quantity"]))
    good = bool(seen.max() < right)
    return Judgement(
        verdict(good and len(missed) <= tolerance, good),
        f"error of some rows {span(seen)} ({over(rows, 'quantity')}); along random directions {span(along)}",
        _what(gradient_check),
        f"a spot check shows faults of the formula, which are in every row; it cannot check "
        f"{listing(missed)}, sums over all rows, nor faults in other rows; random directions see them all",
    )


def _within(values: pd.Series, published: float, factor: float) -> bool:
    return bool(values.min() / factor <= published <= values.max() * factor)


def _what(gradient_check: pd.DataFrame) -> str:
    return f"float64; {over(gradient_check, 'kernel', 'quantity', 'method', 'step', 'shape', 'scope')}"

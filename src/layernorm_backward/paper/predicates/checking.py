"""Claims about gradient checks by difference quotients: tables gradient_check and spot_check."""

import pandas as pd

from layernorm_backward.paper.predicates.judgement import (
    Judgement,
    NothingMeasured,
    count,
    listing,
    number,
    over,
    pick,
    span,
    verdict,
)
from layernorm_backward.paper.predicates.mutants import CORRECT


def gradient_error_is(
    gradient_check: pd.DataFrame, *, published: float, right: float, tolerance: float
) -> Judgement:
    """The published error is within the factor `tolerance` of the range that some difference method gives;
    corrected where no method gives it, but all errors are below `right`. An error is measured as published:
    the largest difference over the sum of the largest magnitudes."""
    errors = pick(gradient_check, "max_norm_error")
    methods = dict(list(errors.groupby(gradient_check["method"])))
    near = [name for name, found in methods.items() if _within(found, published, tolerance)]
    ranges = (f"{span(it)} in {count(len(it), 'check')} ({name})" for name, it in methods.items())
    return Judgement(
        verdict(bool(near), errors.max() < right),
        f"relative error {listing(ranges)}; published {number(published)}",
        _what(gradient_check),
        f"the published error is within a factor {number(tolerance)} of the range of {_methods(near)}; "
        "its method and its random draw are unknown",
    )


def gradient_difference_is(
    gradient_check: pd.DataFrame, *, published: dict[str, float], right: float, tolerance: float
) -> Judgement:
    """At each shape the largest absolute difference is within the factor `tolerance` of the published one."""
    found = {shape: pick(gradient_check, "max_abs_error", shape=shape) for shape in published}
    near = [_within(values, published[shape], tolerance) for shape, values in found.items()]
    return Judgement(
        verdict(all(near), max(values.max() for values in found.values()) < right),
        listing(
            f"{span(it)} at {shape} (published {number(published[shape])})" for shape, it in found.items()
        ),
        _what(gradient_check),
        f"{sum(near)} of {len(near)} shapes agree within a factor {number(tolerance)}; the published step "
        "and draw are unknown",
    )


def spot_check_replaces(spot_check: pd.DataFrame, *, elements: str, tolerance: float) -> Judgement:
    """The largest number of random elements catches all faults but `tolerance` in every sample; corrected
    where all missed faults are local; refuted elsewhere, and where the correct kernel is caught."""
    its = _faults_of(spot_check, elements)
    its = its[its["drawn"] == its["drawn"].max()]
    caught, local = its["caught"].astype(bool), its["local"].astype(bool)
    quiet = not _false_alarms(spot_check, elements)
    shares = 100 * (its["caught_samples"] / its["samples"])[local]
    return Judgement(
        verdict(quiet and int((~caught).sum()) <= tolerance, quiet and bool(caught[~local].all())),
        f"{int(its['drawn'].max())} elements of each gradient catch {int(caught.sum())} of {len(its)} faults "
        f"in each of {int(its['samples'].max())} samples; faults in a single row, column or element in "
        f"{span(shares)} % of the samples",
        _large(its),
        f"not caught in every sample: {listing(its.loc[~caught, 'mutant'])}",
    )


def large_check_catches(spot_check: pd.DataFrame, *, check: str, tolerance: float) -> Judgement:
    """All faults but `tolerance` are caught in every sample, and the correct kernel in none."""
    its, alarms = _faults_of(spot_check, check), _false_alarms(spot_check, check)
    caught = its["caught"].astype(bool)
    return Judgement(
        verdict(int((~caught).sum()) <= tolerance and not alarms),
        f"{int(caught.sum())} of {len(its)} faults in each of {int(its['samples'].max())} samples; the "
        f"correct kernel is caught in {alarms}",
        _large(its),
        f"not caught in every sample: {listing(its.loc[~caught, 'mutant'])}",
    )


def _faults_of(spot_check: pd.DataFrame, check: str) -> pd.DataFrame:
    found = spot_check[(spot_check["check"] == check) & (spot_check["mutant"] != CORRECT)]
    if found.empty:
        raise NothingMeasured(f"no fault was measured with the check {check}")
    return found


def _false_alarms(spot_check: pd.DataFrame, check: str) -> int:
    correct = spot_check[(spot_check["check"] == check) & (spot_check["mutant"] == CORRECT)]
    return int(pick(correct, "caught_samples").sum())


def _large(its: pd.DataFrame) -> str:
    return f"float64; {over(its, 'check', 'drawn')}"


def _methods(names: list[str]) -> str:
    return listing(names) if names else "no method"


def _within(values: pd.Series, published: float, factor: float) -> bool:
    return bool(values.min() / factor <= published <= values.max() * factor)


def _what(gradient_check: pd.DataFrame) -> str:
    return f"float64; {over(gradient_check, 'kernel', 'quantity', 'method', 'step', 'shape', 'scope')}"

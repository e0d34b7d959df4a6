"""Claims about errors of the kernels: tables backward_error, cancellation and edge_cases."""

import pandas as pd

from layernorm_backward.paper.predicates.forms import grows_as, stays_below, within_bounds
from layernorm_backward.paper.predicates.judgement import (
    Judgement,
    listing,
    number,
    over,
    pick,
    power,
    said,
    slope,
    span,
    verdict,
)


def error_stays_below(backward_error: pd.DataFrame, *, tolerance: float) -> Judgement:
    """The largest error of every selected cell is below the tolerance, in u."""
    return stays_below(pick(backward_error, "error_u_max"), _condition(backward_error), tolerance)


def error_grows_with_kappa(backward_error: pd.DataFrame, *, expected: float, tolerance: float) -> Judgement:
    """The median error grows as kappa to the expected power, for every kernel and quantity selected."""
    pick(backward_error, "error_u_median")
    parts = backward_error.groupby(["kernel", "quantity"])
    found = {" ".join(key): slope(part["kappa"], part["error_u_median"]) for key, part in parts}
    return grows_as(found, _condition(backward_error), expected, tolerance)


def errors_within_bounds(backward_error: pd.DataFrame, *, tolerance: float) -> Judgement:
    """No row's error exceeds its first-order bound by more than the factor `tolerance`."""
    condition = _condition(backward_error)
    return within_bounds(backward_error, "bound_ratio_max", "error_u_max", condition, tolerance)


def cancellation_is_benign(cancellation: pd.DataFrame, *, tolerance: float) -> Judgement:
    """The error stays below the tolerance (in u) relative to dx, or at least relative to r*g."""
    relative = pick(cancellation, "error_u_max")
    absolute = pick(cancellation, "absolute_error_u_max")
    growth = slope(cancellation["kappa_g"], cancellation["error_u_median"])
    return Judgement(
        verdict(relative.max() <= tolerance, absolute.max() <= tolerance),
        f"error up to {number(relative.max())} u of dx, {number(absolute.max())} u of r*g",
        f"{over(cancellation, 'kernel', 'dtype', 'hidden', 'kappa_g')}; rows N(0,1), g along 1 and x_hat",
        f"relative to dx the error grows as kappa_g to the power {power(growth)}; relative to r*g it is "
        f"{said(absolute.max() <= tolerance, 'at most', 'above')} {number(tolerance)} u",
    )


def scales_are_sane(edge_cases: pd.DataFrame, *, tolerance: float) -> Judgement:
    """Every scale passes, and norm(dx)*scale is within the factor `tolerance` of its value at scale 1."""
    passed = pick(edge_cases, "passed").astype(bool)
    share = pick(edge_cases, "value")
    good = bool(passed.all())
    steady = bool(share.between(1 / tolerance, tolerance).all())
    return Judgement(
        verdict(good and steady, good),
        f"{int(passed.sum())} of {len(passed)} cases pass; norm(dx)*scale over that at scale 1: "
        + span(share),
        _cases(edge_cases),
        said(good, "every gradient is finite and correct", f"failed: {_failed(edge_cases)}")
        + "; where the variance is below eps, dx grows more slowly than 1/scale",
    )


def cases_pass(edge_cases: pd.DataFrame, *, tolerance: float) -> Judgement:
    """At most `tolerance` of the selected edge cases fail."""
    passed = pick(edge_cases, "passed").astype(bool)
    return Judgement(
        verdict(int((~passed).sum()) <= tolerance),
        f"{int(passed.sum())} of {len(passed)} cases pass",
        _cases(edge_cases),
        f"failed: {_failed(edge_cases)}",
    )


def cases_fail(edge_cases: pd.DataFrame, *, tolerance: float) -> Judgement:
    """At most `tolerance` of the selected edge cases pass."""
    passed = pick(edge_cases, "passed").astype(bool)
    errors = pick(edge_cases, "value")
    return Judgement(
        verdict(int(passed.sum()) <= tolerance, not passed.all()),
        f"{int((~passed).sum())} of {len(passed)} cases fail; errors {span(errors)} u",
        _cases(edge_cases),
        f"failed: {_failed(edge_cases)}",
    )


def _condition(table: pd.DataFrame) -> str:
    return f"{over(table, 'kernel', 'quantity', 'dtype')}; dy {over(table, 'upstream', 'hidden', 'kappa')}"


def _cases(table: pd.DataFrame) -> str:
    cases = table["case"].unique()
    names = listing(cases) if len(cases) <= 4 else f"{len(cases)} cases from {cases[0]} to {cases[-1]}"
    return f"{over(table, 'kernel', 'dtype')}; {names}"


def _failed(table: pd.DataFrame) -> str:
    failed = table[~table["passed"].fillna(True).astype(bool)]
    return listing(f"{row.kernel} {row.case} {row.dtype}" for row in failed.itertuples())

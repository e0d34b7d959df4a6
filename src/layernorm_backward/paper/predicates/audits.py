"""Claims about the audit: tables audit (our kernels) and audit_peers (other packages)."""

import pandas as pd

from layernorm_backward.paper.predicates.judgement import (
    Judgement,
    NothingMeasured,
    listing,
    number,
    over,
    pick,
    span,
    verdict,
)


def audit_passes(audit: pd.DataFrame, *, tolerance: float) -> Judgement:
    """At most `tolerance` of the selected findings fail."""
    return _passes(audit, tolerance)


def audit_grows(audit: pd.DataFrame, *, expected: float, tolerance: float) -> Judgement:
    """Every selected power of kappa is the expected one, within the tolerance."""
    return _grows(audit, expected, tolerance)


def peers_pass(audit_peers: pd.DataFrame, *, tolerance: float) -> Judgement:
    """At most `tolerance` of the selected findings about other packages fail."""
    return _passes(audit_peers, tolerance)


def peers_fail(audit_peers: pd.DataFrame, *, tolerance: float) -> Judgement:
    """At most `tolerance` of the selected findings about other packages pass; corrected where some fail."""
    judged = _judged(audit_peers)
    passed = judged[judged["passed"].astype(bool)]
    return Judgement(
        verdict(len(passed) <= tolerance, len(passed) < len(judged)),
        f"{len(judged) - len(passed)} of {len(judged)} fail; {_values(judged)}",
        _condition(judged),
        f"passed: {listing(_names(passed))}",
    )


def peers_grow(audit_peers: pd.DataFrame, *, expected: float, tolerance: float) -> Judgement:
    """Every selected power of kappa of other packages is the expected one, within the tolerance."""
    return _grows(audit_peers, expected, tolerance)


def _passes(rows: pd.DataFrame, tolerance: float) -> Judgement:
    judged = _judged(rows)
    failed = judged[~judged["passed"].astype(bool)]
    return Judgement(
        verdict(len(failed) <= tolerance),
        f"{len(judged) - len(failed)} of {len(judged)} pass",
        _condition(judged),
        f"failed: {listing(_names(failed))}",
    )


def _grows(rows: pd.DataFrame, expected: float, tolerance: float) -> Judgement:
    powers = pick(rows, "value")
    good = bool(((powers - expected).abs() <= tolerance).all())
    return Judgement(
        verdict(good),
        f"power of kappa {span(powers)} in {len(powers)} fits",
        _condition(rows),
        f"expected {number(expected)}, within {number(tolerance)}",
    )


def _judged(rows: pd.DataFrame) -> pd.DataFrame:
    judged = rows.dropna(subset=["passed"])
    if judged.empty:
        raise NothingMeasured("the selected findings of the audit have no verdict")
    return judged


def _names(rows: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(f"{row.property} ({row.kernel}, {row.dtype})" for row in rows.itertuples()))[:6]


def _values(rows: pd.DataFrame) -> str:
    """The range of the values of each property; the properties may have different units."""
    kinds = rows.dropna(subset=["value"]).groupby("property", sort=False)["value"]
    return listing(f"{name} {span(values)}" for name, values in kinds) if len(kinds) else "no value"


def _condition(rows: pd.DataFrame) -> str:
    return over(rows, "kernel", "dtype", "property")

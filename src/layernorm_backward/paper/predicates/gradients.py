"""Claims about formulas for the gradients: table derivation (errors relative to the exact gradient)."""

import pandas as pd

from layernorm_backward.paper.predicates.judgement import (
    ClaimMisfit,
    Judgement,
    NothingMeasured,
    listing,
    number,
    over,
    pick,
    said,
    verdict,
)


def two_derivations_agree(derivation: pd.DataFrame, *, tolerance: float) -> Judgement:
    """Two derivations differ by less than the tolerance; the difference is bounded by the sum of their
    errors."""
    errors = _worst(derivation)
    if len(errors) != 2:
        raise ClaimMisfit(f"selects {len(errors)} derivations, needs two: {listing(errors.index)}")
    bound = errors.sum()
    parts = listing(f"{name} {number(error)}" for name, error in errors.items())
    return Judgement(
        verdict(bound < tolerance),
        f"relative difference at most {number(bound)}",
        _condition(derivation),
        f"largest error against exact arithmetic: {parts}; allowed: {number(tolerance)}",
    )


def formula_is_right(derivation: pd.DataFrame, *, tolerance: float) -> Judgement:
    """The error of a formula is within the tolerance for uniform and for random gamma; corrected where it is
    for uniform gamma only."""
    uniform = pick(derivation, "rel_error", gamma_kind="uniform").max()
    general = pick(derivation, "rel_error", gamma_kind="random").max()
    only = said(uniform <= tolerance, "correct only for uniform gamma", "incorrect even for uniform gamma")
    return Judgement(
        verdict(max(uniform, general) <= tolerance, uniform <= tolerance),
        f"relative error up to {number(uniform)} with uniform gamma, {number(general)} with random gamma",
        _condition(derivation),
        said(max(uniform, general) <= tolerance, "correct for every gamma", only),
    )


def derivations_agree(derivation: pd.DataFrame, *, expected: int, tolerance: float) -> Judgement:
    """As many derivations as expected agree with the exact gradients within the tolerance, and every
    attempted symbolic proof of one succeeded."""
    errors = _worst(derivation)
    if len(errors) != expected:
        raise NothingMeasured(
            f"needs {expected} derivations, {len(errors)} measured: {listing(errors.index)}"
        )
    agree, proved = bool((errors <= tolerance).all()), derivation["proved"].fillna(False).astype(bool)
    failed = derivation["rel_error"].notna() & (derivation["reason"] != "")
    if agree and not (proved | failed).any():
        raise NothingMeasured("no proof was attempted")
    return Judgement(
        verdict(agree and not failed.any()),
        f"{len(errors)} derivations, relative error up to {number(errors.max())} ({errors.idxmax()}); "
        f"{int(proved.sum())} cells proved symbolically",
        _condition(derivation),
        f"allowed: {number(tolerance)}",
    )


def _worst(derivation: pd.DataFrame) -> pd.Series:
    return pick(derivation, "rel_error").groupby(derivation["derivation"]).max()


def _condition(derivation: pd.DataFrame) -> str:
    return f"float64; gamma {over(derivation, 'gamma_kind', 'shape', 'quantity')}; 2-norms"

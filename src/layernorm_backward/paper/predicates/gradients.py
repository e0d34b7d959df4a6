"""Claims about formulas for the gradients: table derivation, errors relative to the exact gradient."""

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
    """Two derivations differ by less than the tolerance: by at most the sum of their errors."""
    errors = _worst(derivation)
    if len(errors) != 2:
        raise ClaimMisfit(f"two derivations are compared, {len(errors)} selected: {listing(errors.index)}")
    bound = errors.sum()
    parts = listing(f"{name} {number(error)}" for name, error in errors.items())
    return Judgement(
        verdict(bound < tolerance),
        f"relative difference at most {number(bound)}",
        _condition(derivation),
        f"largest error against exact arithmetic: {parts}; allowed: {number(tolerance)}",
    )


def formula_is_right(derivation: pd.DataFrame, *, tolerance: float) -> Judgement:
    """A formula has an error within the tolerance for uniform gamma and for random; corrected where it has
    for uniform gamma alone."""
    uniform = pick(derivation, "rel_error", gamma_kind="uniform").max()
    general = pick(derivation, "rel_error", gamma_kind="random").max()
    only = said(
        uniform <= tolerance, "right only where gamma is uniform", "wrong even where gamma is uniform"
    )
    return Judgement(
        verdict(max(uniform, general) <= tolerance, uniform <= tolerance),
        f"relative error up to {number(uniform)} with uniform gamma, {number(general)} with random gamma",
        _condition(derivation),
        said(max(uniform, general) <= tolerance, "right for every gamma", only),
    )


def derivations_agree(derivation: pd.DataFrame, *, expected: int, tolerance: float) -> Judgement:
    """The expected number of derivations are within the tolerance of the exact gradients, one of them proved
    symbolically wherever a proof was tried."""
    errors = _worst(derivation)
    if len(errors) != expected:
        raise NothingMeasured(
            f"{expected} derivations are wanted, {len(errors)} measured: {listing(errors.index)}"
        )
    agree, proved = bool((errors <= tolerance).all()), derivation["proved"].fillna(False).astype(bool)
    failed = derivation["rel_error"].notna() & (derivation["reason"] != "")
    if agree and not (proved | failed).any():
        raise NothingMeasured("no proof was tried")
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

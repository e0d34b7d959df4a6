"""Claims about the design decisions in numba_fused: table kernel_costs. For floors and goals see `goals`."""

import pandas as pd

from layernorm_backward.paper.predicates.cells import certainty
from layernorm_backward.paper.predicates.judgement import (
    Judgement,
    listing,
    number,
    over,
    pick,
    said,
    span,
    verdict,
)

DEFAULT = "default"


def bits_stay(kernel_costs: pd.DataFrame, *, tolerance: float) -> Judgement:
    """In at most `tolerance` rows the bits of the results differ from those of the default on one thread."""
    equal = pick(kernel_costs, "bits_equal").astype(bool)
    other = kernel_costs.loc[equal.index[~equal]]
    return Judgement(
        verdict(int((~equal).sum()) <= tolerance),
        f"the bits of the results are equal in {int(equal.sum())} of {len(equal)} rows",
        f"{_where(kernel_costs)}; {over(kernel_costs, 'variant')}; each number of threads from 1 to all",
        f"different bits: {listing(sorted(set(other['variant'])))}",
    )


def recentring_is_used(kernel_costs: pd.DataFrame, *, without: float, tolerance: float) -> Judgement:
    """On rows of large kappa the error of the default is below the tolerance (in u), and without re-centring
    above `without`; corrected where only the first holds."""
    kept = pick(kernel_costs, "kappa_error_u_max", variant=DEFAULT)
    lost = pick(kernel_costs, "kappa_error_u_max", variant="no_recentring")
    good, needed = bool(kept.max() < tolerance), bool(lost.min() > without)
    return Judgement(
        verdict(good and needed, good),
        f"errors of {span(kept)} u with re-centring, {span(lost)} u without",
        f"{_where(kernel_costs)}; {over(kernel_costs, 'kappa')}",
        f"{said(good, 'below', 'not below')} {number(tolerance)} u with it, "
        f"{said(needed, 'above', 'not above')} {number(without)} u without",
    )


def decision_saves(kernel_costs: pd.DataFrame, *, tolerance: float) -> Judgement:
    """Every selected cell differs by the rule of differences, and saves more than the share `tolerance` of
    the variant's time; corrected where the median cell does."""
    saved = -pick(kernel_costs, "cost")
    sure = kernel_costs.loc[saved.index, "differs"].astype(bool)
    good = sure & (saved > tolerance)
    return Judgement(
        verdict(bool(good.all()), bool(saved.median() > tolerance)),
        f"saves {_share(saved.median())} of the time in the median cell, {_range(saved)} % over the cells",
        f"default against {over(kernel_costs, 'variant')}; {_where(kernel_costs.loc[saved.index])}",
        f"{int(good.sum())} of {len(good)} cells save more than {_share(tolerance)} and differ by the rule "
        "of differences",
    )


def decision_costs_at_most(kernel_costs: pd.DataFrame, *, tolerance: float) -> Judgement:
    """The cost is at most the tolerance in every selected cell; corrected where it is in some.

    Judged by the medians of the cells; the reason also counts cells whose whole interval agrees.
    """
    cost = pick(kernel_costs, "cost")
    good, measured = cost <= tolerance, kernel_costs.loc[cost.index]
    above, within = measured["cost_low"] > tolerance, measured["cost_high"] <= tolerance
    return Judgement(
        verdict(bool(good.all()), bool(good.any())),
        f"costs {_share(cost.median())} of the time in the median cell, {_range(cost)} % over the cells",
        f"default against {over(measured, 'variant')}; {_where(measured)}",
        f"{int(good.sum())} of {len(good)} cells stay within {_share(tolerance)}; {certainty(above, within)}",
    )


def _share(value: float) -> str:
    return f"{number(100 * value)} %"


def _range(values: pd.Series) -> str:
    return span(100 * values)


def _where(kernel_costs: pd.DataFrame) -> str:
    return over(kernel_costs, "direction", "dtype", "hidden", "threads", "working_set")

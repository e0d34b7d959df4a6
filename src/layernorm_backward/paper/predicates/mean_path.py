"""Claims about the errors of algorithms for mean and variance: table mean_path."""

import numpy as np
import pandas as pd

from layernorm_backward.paper.predicates.forms import stays_below
from layernorm_backward.paper.predicates.judgement import (
    Judgement,
    NothingMeasured,
    among,
    listing,
    number,
    over,
    pick,
    said,
    verdict,
)

CELL = ("data", "upstream", "hidden", "kappa")


def pass_errors_stay_below(mean_path: pd.DataFrame, *, tolerance: float) -> Judgement:
    """The largest error of every selected cell is below the tolerance, in u."""
    return stays_below(pick(mean_path, "error_u_max"), _condition(mean_path), tolerance)


def pass_errors_reach(mean_path: pd.DataFrame, *, kappa: dict[str, float], tolerance: float) -> Judgement:
    """For every algorithm, dtype and kind of data, the error reaches the tolerance (in u) in some cell.

    To conclude that it does not, rows of that kind of data must have been measured from `kappa` on.
    """
    among(mean_path["data"], *kappa)
    names = mean_path[["algorithm", "dtype", "data"]].agg(" ".join, axis=1)
    errors = pick(mean_path, "error_u_max")
    largest = errors.groupby(names).max()
    far = (mean_path["kappa"] >= mean_path["data"].map(kappa))[errors.index]
    decided = {*largest.index[largest >= tolerance], *names[far.index[far]]}
    if undecided := [name for name in names.unique() if name not in decided]:
        least = listing(f"{number(it)} ({data})" for data, it in kappa.items())
        raise NothingMeasured(f"no measured rows from kappa {least} on of {listing(undecided)}")
    return Judgement(
        verdict(bool((largest >= tolerance).all())),
        f"largest errors {listing(f'{number(it)} u ({name})' for name, it in largest.items())}",
        _condition(mean_path),
        f"expected: {number(tolerance)} u or more in each",
    )


def passes_within_bounds(mean_path: pd.DataFrame, *, tolerance: float) -> Judgement:
    """At most `tolerance` rows exceed their bounds."""
    ratios = pick(mean_path, "bound_ratio_max")
    bounded, measured = mean_path.loc[ratios.index], mean_path["error_u_max"].notna().sum()
    violations = int(bounded["violations"].sum())
    return Judgement(
        verdict(violations <= tolerance),
        f"{violations} of {int(bounded['bounded_rows'].sum())} bounded rows exceed their bound; "
        f"largest ratio of error to bound {number(ratios.max())}",
        _condition(mean_path),
        f"{measured - len(ratios)} of {measured} cells have no bounded row",
    )


def bounds_are_loose(mean_path: pd.DataFrame, *, tolerance: float) -> Judgement:
    """In every selected cell the median ratio of error to bound is below the tolerance."""
    ratios = pick(mean_path, "bound_ratio_median")
    return Judgement(
        verdict(bool((ratios < tolerance).all())),
        f"median ratio of error to bound {number(ratios.min())} to {number(ratios.max())}",
        _condition(mean_path),
        f"expected: below {number(tolerance)}",
    )


def eta_and_rho_explain(mean_path: pd.DataFrame, *, tolerance: float) -> Judgement:
    """Without the exact effect of eta and rho, no row's error exceeds the tolerance, in u."""
    left = pick(mean_path, "remainder_u_max")
    errors = pick(mean_path, "error_u_max")
    return Judgement(
        verdict(left.max() <= tolerance),
        f"eta and rho explain errors of up to {number(errors.max())} u but for {number(left.max())} u",
        _condition(mean_path),
        f"allowed: {number(tolerance)} u; {len(left)} cells",
    )


def first_order_explains(mean_path: pd.DataFrame, *, tolerance: float) -> Judgement:
    """In every cell, the error that first-order theory does not explain is at most the tolerance times the
    largest error."""
    left = mean_path["residual_u_max"]
    share = (left / mean_path["error_u_max"]).mask(np.isinf(left), np.inf).rename("share")
    share = pick(share.to_frame(), "share")
    return Judgement(
        verdict(bool((share <= tolerance).all())),
        f"first-order theory leaves at most {number(share.max())} of the error unexplained",
        _condition(mean_path),
        f"allowed: {number(tolerance)}; {len(share)} cells",
    )


def _condition(table: pd.DataFrame) -> str:
    """What the measured rows cover, and a note if not every combination of these values was measured."""
    keys = ("algorithm", "quantity", "dtype", "accumulator", *CELL)
    measured = table[table["error_u_max"].notna()]
    each = measured.groupby("dtype")[list(CELL)]
    crossed = all(len(cells.drop_duplicates()) == cells.nunique().prod() for _, cells in each)
    return over(measured, *keys) + said(crossed, "", f"; {listing(CELL)} not all combined")

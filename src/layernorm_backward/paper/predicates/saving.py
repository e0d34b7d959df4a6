"""Claims about what the forward pass saves of the mean: table saved_statistics."""

import pandas as pd

from layernorm_backward.dtypes import dtype_of, unit_roundoff
from layernorm_backward.paper.predicates.forms import grows_as, stays_below, within_bounds
from layernorm_backward.paper.predicates.judgement import (
    Judgement,
    NothingMeasured,
    among,
    listing,
    number,
    over,
    pick,
    slope,
    verdict,
)


def own_dtype_suffices(saved_statistics: pd.DataFrame, *, tolerance: float) -> Judgement:
    """With the mean saved in the dtype of x, the largest error of dx is below the tolerance, in u."""
    own = saved_statistics[saved_statistics["saved"] == "mean_" + saved_statistics["dtype"]]
    return saved_errors_stay_below(own, tolerance=tolerance)


def saved_errors_stay_below(saved_statistics: pd.DataFrame, *, tolerance: float) -> Judgement:
    """The largest error of dx of every selected cell is below the tolerance, in u of the dtype of x."""
    errors = pick(saved_statistics, "dx_error_u_max")
    return stays_below(errors, _what(saved_statistics), tolerance, what="error of dx")


def saved_errors_grow(saved_statistics: pd.DataFrame, *, expected: float, tolerance: float) -> Judgement:
    """The median error of dx grows as kappa to the expected power, for every choice of what is saved."""
    measured = saved_statistics.loc[pick(saved_statistics, "dx_error_u_median").index]
    parts = measured.groupby("saved")
    found = {name: slope(part["kappa"], part["dx_error_u_median"]) for name, part in parts}
    return grows_as(found, _what(saved_statistics), expected, tolerance)


def offsets_within_bound(saved_statistics: pd.DataFrame, *, tolerance: float) -> Judgement:
    """The error of no row's mean exceeds its bound by more than the factor `tolerance`."""
    condition, columns = _what(saved_statistics), ("eta_bound_ratio_max", "eta_u_max")
    return within_bounds(saved_statistics, *columns, condition, tolerance, what="error of the mean")


def rstd_costs_its_roundoff(saved_statistics: pd.DataFrame, *, tolerance: float) -> Judgement:
    """Rounding rstd as well adds at most `tolerance` times its roundoff to the error of dx."""
    errors = saved_statistics.pivot_table(
        index=["dtype", "forward", "backward", "kappa"], columns="saved", values="dx_error_u_max"
    )
    rounded = [name for name in errors.columns if name.startswith("mean_rstd_")]
    if not rounded:
        raise NothingMeasured("no row with a rounded rstd was measured")
    among(errors.columns, *(name.replace("mean_rstd_", "mean_") for name in rounded))
    shares = {}
    for name in rounded:
        own = pd.Series([unit_roundoff(dtype_of(key[0])) for key in errors.index], index=errors.index)
        roundoff_u = unit_roundoff(dtype_of(name.removeprefix("mean_rstd_"))) / own
        added = errors[name] - errors[name.replace("mean_rstd_", "mean_")]
        shares[name] = pick((added / roundoff_u).rename("share").to_frame(), "share").max()
    most = max(shares.values())
    return Judgement(
        verdict(most <= tolerance),
        f"rounding rstd adds up to {number(most)} times its roundoff",
        _what(saved_statistics),
        f"allowed: {number(tolerance)} times the roundoff of rstd",
    )


def _what(table: pd.DataFrame) -> str:
    names = list(table["saved"].unique())
    saved = listing(names) if len(names) <= 4 else f"{len(names)} choices of what is saved"
    algorithms = f"forward {over(table, 'forward')}, backward {over(table, 'backward')}"
    return f"{saved}; {over(table, 'dtype')}; {algorithms}; {over(table, 'kappa')}"

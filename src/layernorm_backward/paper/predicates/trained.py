"""Claims about the rows of a trained encoder: tables model and model_error."""

import pandas as pd

from layernorm_backward.paper.predicates.forms import ratio, stays_below, within_bounds
from layernorm_backward.paper.predicates.judgement import Judgement, number, over, pick, span, verdict

_CELL = ["dtype", "accumulator", "upstream", "layer", "offset"]


def kappa_stays_below(model: pd.DataFrame, *, tolerance: float) -> Judgement:
    """At every selected layer normalization the largest kappa of a row is below the tolerance."""
    kappa = pick(model, "kappa_max")
    return Judgement(
        verdict(kappa.max() < tolerance),
        f"kappa up to 1 + {number(kappa.max() - 1)}, |mean|/std up to {number(model['offset_max'].max())}",
        f"{model['layer'].nunique()} layer normalizations; {over(model, 'dtype', 'rows')}",
        f"allowed: below {number(tolerance)}",
    )


def algorithms_err_alike(
    model_error: pd.DataFrame, *, baseline: str, least: float, tolerance: float
) -> Judgement:
    """In each cell the largest error of dx of every algorithm is `least` to `tolerance` times that of the
    baseline; corrected where it is in the median cell."""
    ratios = _over_baseline(model_error, baseline)
    return Judgement(
        verdict(bool(ratios.between(least, tolerance).all()), bool(least <= ratios.median() <= tolerance)),
        f"{span(ratios)} times the error of {baseline}",
        _condition(model_error),
        f"allowed: {number(least)} to {number(tolerance)} times; {len(ratios)} cells",
    )


def algorithms_err_more(model_error: pd.DataFrame, *, baseline: str, tolerance: float) -> Judgement:
    """In each cell the largest error of dx of every algorithm is at least `tolerance` times that of the
    baseline; corrected where it is in some cell."""
    ratios = _over_baseline(model_error, baseline)
    return Judgement(
        verdict(ratios.min() >= tolerance, ratios.max() >= tolerance),
        f"{span(ratios)} times the error of {baseline}",
        _condition(model_error),
        f"expected: at least {number(tolerance)} times; {len(ratios)} cells",
    )


def trained_errors_stay_below(model_error: pd.DataFrame, *, tolerance: float) -> Judgement:
    """The largest error of dx is below the tolerance, in u, in every selected cell."""
    errors = pick(model_error, "dx_error_u_max")
    return stays_below(errors, _condition(model_error), tolerance, what="error of dx")


def trained_errors_within_bounds(model_error: pd.DataFrame, *, tolerance: float) -> Judgement:
    """No row's error of dx exceeds its bound by more than the factor `tolerance`."""
    condition = _condition(model_error)
    return within_bounds(model_error, "bound_ratio_max", "dx_error_u_max", condition, tolerance)


def _over_baseline(table: pd.DataFrame, baseline: str) -> pd.Series:
    own = table[table["algorithm"] == baseline].set_index(_CELL)["dx_error_u_max"].rename("own")
    others = table[table["algorithm"] != baseline].join(own, on=_CELL)
    return ratio(others, "dx_error_u_max", "own")


def _condition(table: pd.DataFrame) -> str:
    return f"{over(table, 'algorithm', 'dtype', 'accumulator')}; dy {over(table, 'upstream', 'offset')}"

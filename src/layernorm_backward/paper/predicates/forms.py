"""Judgements that claims about several tables share: ratios, errors below a limit or a bound, powers."""

import pandas as pd

from layernorm_backward.paper.predicates.judgement import Judgement, listing, number, pick, power, verdict


def ratio(rows: pd.DataFrame, part: str, whole: str) -> pd.Series:
    """One column over another, in the rows where both were measured; never empty."""
    return pick((rows[part] / rows[whole]).to_frame("ratio"), "ratio")


def stays_below(
    errors: pd.Series, condition: str, tolerance: float, *, what: str = "error", unit: str = " u"
) -> Judgement:
    """The largest error is below the tolerance."""
    return Judgement(
        verdict(errors.max() < tolerance),
        f"{what} up to {number(errors.max())}{unit}",
        condition,
        f"allowed: below {number(tolerance)}{unit}; {len(errors)} cells",
    )


def within_bounds(
    rows: pd.DataFrame, column: str, error: str, condition: str, tolerance: float, *, what: str = "error"
) -> Judgement:
    """The ratio of an error to its bound, in `column`, is at most the tolerance in every cell.

    Cells in which `error` was measured but has no bound are counted.
    """
    ratios = pick(rows, column)
    without = int(rows[error].notna().sum()) - len(ratios)
    return Judgement(
        verdict(bool((ratios <= tolerance).all())),
        f"largest ratio of {what} to bound {number(ratios.max())} in {len(ratios)} cells",
        condition,
        f"{int((ratios > tolerance).sum())} cells exceed {number(tolerance)} times their bound; {without} of "
        f"{without + len(ratios)} cells have no bound",
    )


def grows_as(
    powers: dict[str, float], condition: str, expected: float, tolerance: float, *, what: str = "slopes"
) -> Judgement:
    """Each of the named powers is within the tolerance of the expected one."""
    return Judgement(
        verdict(all(abs(value - expected) <= tolerance for value in powers.values())),
        f"{what} {listing(f'{power(value)} ({name})' for name, value in powers.items())}",
        condition,
        f"expected {expected:g}, within {tolerance:g}",
    )

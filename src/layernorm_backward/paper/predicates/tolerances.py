"""Claims about the tolerance rules of tests: table tolerance."""

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


def rules_pass(tolerance_table: pd.DataFrame, *, tolerance: float) -> Judgement:
    """At most `tolerance` of the selected cells of tolerance rules fail."""
    passed = pick(tolerance_table, "passed").astype(bool)
    failed = tolerance_table.loc[passed.index[~passed]]
    return Judgement(
        verdict(len(failed) <= tolerance),
        f"{len(failed)} of {len(passed)} cells fail; {_shares(tolerance_table)}",
        _condition(tolerance_table),
        f"failed: {_cells(failed)}",
    )


def rules_fail(tolerance_table: pd.DataFrame, *, at: dict[str, float], tolerance: float) -> Judgement:
    """Each rule fails in more than `tolerance` cells of each dtype; corrected where some rule does.

    To conclude that a rule does not, its cell `at` a kappa and std must have been measured.
    """
    passed = pick(tolerance_table, "passed").astype(bool)
    rows = tolerance_table.loc[passed.index]
    failures = (~passed).groupby([rows["rule"], rows["dtype"]]).sum().unstack("dtype", fill_value=0)
    there = (rows[list(at)] == pd.Series(at)).all(axis=1)
    decided = set(zip(rows.loc[there, "rule"], rows.loc[there, "dtype"], strict=True))
    few = failures.stack()
    undecided = [" ".join(pair) for pair in few.index[few <= tolerance] if pair not in decided]
    if undecided:
        where = ", ".join(f"{name} {number(value)}" for name, value in at.items())
        raise NothingMeasured(f"no measured rows at {where} of {listing(undecided)}")
    bad = (failures > tolerance).all(axis=1)
    fewest = listing(f"{int(count)} ({rule})" for rule, count in failures.min(axis=1).items())
    return Judgement(
        verdict(bool(bad.all()), bool(bad.any())),
        f"{listing(bad.index[bad])} fail in every dtype; {_shares(tolerance_table)}",
        _condition(tolerance_table),
        f"failing cells, in the dtype with the fewest: {fewest}",
    )


def share_is(tolerance_table: pd.DataFrame, *, expected: float, tolerance: float) -> Judgement:
    """In every selected cell the share of kernels is the expected one, within `tolerance`."""
    shares = pick(tolerance_table, "value")
    return Judgement(
        verdict(bool(((shares - expected).abs() <= tolerance).all())),
        _shares(tolerance_table),
        _condition(tolerance_table),
        f"expected {number(expected)}, within {number(tolerance)}; {len(shares)} cells",
    )


def _shares(tolerance_table: pd.DataFrame) -> str:
    parts = tolerance_table.dropna(subset=["value"]).groupby("property", sort=False)["value"]
    return "; ".join(f"{name} {span(part)}" for name, part in parts)


def _condition(tolerance_table: pd.DataFrame) -> str:
    return over(tolerance_table.dropna(subset=["value"]), "rule", "dtype", "kappa", "std")


def _cells(failed: pd.DataFrame) -> str:
    rows = failed.itertuples()
    named = [f"{row.rule} {row.property} {row.dtype} kappa {number(row.kappa)}" for row in rows]
    return listing(named) if len(named) <= 4 else f"{len(named)} cells, from {named[0]} to {named[-1]}"

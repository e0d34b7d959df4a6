"""Claims about how fast errors grow: table slopes (powers fitted on log-log axes)."""

import pandas as pd

from layernorm_backward.paper.predicates.judgement import (
    Judgement,
    NothingMeasured,
    count,
    listing,
    over,
    pick,
    power,
    verdict,
)


def powers_are_those_of_theory(slopes: pd.DataFrame, *, tolerance: float) -> Judgement:
    """Every fitted power is within the tolerance of the power in theory."""
    rows = slopes.loc[pick(slopes, "deviation").index]
    far = rows[rows["deviation"].abs() > tolerance]
    worst = rows.loc[rows["deviation"].abs().idxmax()]
    return Judgement(
        verdict(far.empty),
        f"{count(len(rows), 'slope')}; farthest from theory {power(worst['value'])}, {_name(worst)}, "
        f"where {worst['expected']:g} is expected",
        _condition(rows),
        f"allowed: {tolerance:g}; beyond it: {listing(_name(row) for _, row in far.iterrows())}",
    )


def powers_are(slopes: pd.DataFrame, *, expected: dict[str, float], tolerance: float) -> Judgement:
    """All fitted powers of each kernel in `expected` are within the tolerance of the expected one."""
    rows = slopes.loc[pick(slopes, "value").index]
    missing = set(expected) - set(rows["kernel"])
    if missing:
        raise NothingMeasured(f"no slope of {listing(sorted(missing))}")
    found = {name: rows.loc[rows["kernel"] == name, "value"] for name in expected}
    off = {name: (part - expected[name]).abs().max() for name, part in found.items()}
    wanted = (f"{value:g} ({name})" for name, value in expected.items())
    spans = (f"{power(part.min())} to {power(part.max())} ({name})" for name, part in found.items())
    return Judgement(
        verdict(all(value <= tolerance for value in off.values())),
        f"slopes {listing(spans)}",
        _condition(rows[rows["kernel"].isin(expected)]),
        f"expected {listing(wanted)}, within {tolerance:g}",
    )


def _name(row: pd.Series) -> str:
    return " ".join(row[["kernel", "quantity", "dtype", "upstream"]])


def _condition(rows: pd.DataFrame) -> str:
    return (
        f"{over(rows, 'kernel', 'quantity', 'dtype')}; dy {over(rows, 'upstream')}; {over(rows, 'property')}"
    )

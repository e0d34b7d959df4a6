"""What the predicates about the tolerances of tests must say of small tables."""

from collections.abc import Iterator

import pandas as pd

from claim_cases import Case, cases_of, stacked, wrapped
from claim_frames import frame


def cells(*passed: bool, value: float = 1.0) -> pd.DataFrame:
    """One rule, with a cell of float32 and one of float64 for each."""
    rows = [("allclose", dtype, it, value) for it in passed for dtype in ("float32", "float64")]
    keys = {"kappa": 1.0, "std": 1.0, "property": "killed"}
    return frame("rule dtype passed value", *rows, **keys)


def two_rules(first: bool, second: bool) -> pd.DataFrame:
    return pd.concat([cells(first), cells(second).assign(rule="quack")], ignore_index=True)


def one_dtype_passes() -> pd.DataFrame:
    table = cells(False)
    return table.assign(passed=table["dtype"] == "float64")


def tolerances() -> Iterator[Case]:
    good, some, bad = (wrapped(cells, it) for it in ((True, True), (True, False), (False, False)))
    yield from cases_of("rules_pass", 0, {}, confirmed=good, refuted=some + bad)
    yield from cases_of("rules_pass", 2, {}, confirmed=good + some, refuted=bad)
    yield from cases_of(
        "rules_fail",
        0,
        {"at": {"kappa": 1, "std": 1}},
        confirmed=some + bad + wrapped(two_rules, (False, False)),
        corrected=wrapped(two_rules, (True, False)),
        refuted=[*good, (one_dtype_passes(),)],
    )
    full, less = ([(cells(True, value=share),)] for share in (1.0, 0.5))
    yield from cases_of(
        "share_is", 0.1, {"expected": 1.0}, confirmed=full, refuted=less + stacked(*full[0], *less[0])
    )

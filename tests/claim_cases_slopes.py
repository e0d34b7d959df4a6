"""What the predicates about slopes must say of small tables: some that confirm, some that do not."""

from collections.abc import Iterator

import pandas as pd

from claim_cases import Case, Tables, cases_of, stacked
from claim_frames import frame

COLUMNS = "kernel value expected"


def fitted(naive: float, welford: float) -> Tables:
    rows = [("naive", naive, 2.0), ("welford", welford, 1.0), ("unknown", float("nan"), 0.0)]
    keys = {"quantity": "dx", "dtype": "float64", "upstream": "shifted", "property": "kappa"}
    table = frame(COLUMNS, *rows, **keys)
    return (table.assign(deviation=table["value"] - table["expected"]),)


def unexpected(table: Tables) -> Tables:
    """A table without the theory's power, which `powers_are` does not need."""
    return (pd.DataFrame(table[0]).assign(deviation=float("nan"), expected=float("nan")),)


def slopes() -> Iterator[Case]:
    (one_far,) = stacked(*fitted(2.05, 0.95), *fitted(2.2, 1.0))
    yield from cases_of(
        "powers_are_those_of_theory",
        0.1,
        {},
        confirmed=[fitted(2.05, 0.95)],
        refuted=[fitted(2.2, 1.0), fitted(2.0, 0.8), one_far],
    )
    yield from cases_of(
        "powers_are",
        0.1,
        {"expected": {"naive": 2.0, "welford": 1.0}},
        confirmed=[unexpected(fitted(2.05, 0.95))],
        refuted=[fitted(2.2, 1.0), fitted(2.0, 0.8), one_far],
    )

"""What the predicates about errors must say of small tables: some that confirm, some that do not."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd

from claim_frames import (
    bounds,
    by_method,
    cancellation,
    cases,
    derivation,
    divisions,
    eps_rows,
    error_rows,
    exact_on,
    growth,
    kernel_error,
    naive,
    spot,
)

Tables = tuple[pd.DataFrame, ...]


class Case(NamedTuple):
    """A predicate, the verdict expected, and what it is called with."""

    predicate: str
    expected: str
    tables: Tables
    tolerance: float
    numbers: dict[str, Any]


def cases_of(
    predicate: str, tolerance: float, numbers: dict[str, Any], **expected: list[Tables]
) -> Iterator[Case]:
    for verdict, calls in expected.items():
        for tables in calls:
            yield Case(predicate, verdict, tables, tolerance, numbers)


TWO = {"naive": 0.0, "stable": 2.0}
EPS = {"ours": 1e-8, "theirs": 1e-5}


def formula(uniform: float, random: float) -> Tables:
    return (derivation(("a", "uniform", uniform, False), ("a", "random", random, False)),)


def two(first: float, second: float) -> Tables:
    return (derivation(("a", "random", first, False), ("b", "random", second, False)),)


def proved(error: float, proved: bool | None, other: float = 0.0) -> Tables:
    rows = [("a", "random", error, proved), ("b", "random", other, False), ("a", "uniform", error, True)]
    return (derivation(*rows),)


def wrapped(make: Any, *calls: Any) -> list[Tables]:
    """The table that `make` gives for each call's arguments."""
    return [(make(*(call if isinstance(call, tuple) else (call,))),) for call in calls]


def stacked(*tables: pd.DataFrame) -> list[Tables]:
    """The rows of all as one table."""
    return [(pd.concat(tables, ignore_index=True),)]


def errors() -> Iterator[Case]:
    yield from cases_of(
        "gradient_error_is",
        1.5,
        {"published": 5e-11, "right": 1e-6},
        confirmed=wrapped(error_rows, (4e-11, 6e-11), (1e-11, 6e-11)),
        corrected=wrapped(error_rows, (4e-9, 6e-9), (4e-13, 6e-13)),
        refuted=wrapped(error_rows, 1e-2, (1e-10, 1e-2), (1e-10, 1e-10, 1e-2)),
    )
    apart, one = ([(by_method(*errors),)] for errors in ((1e-11, 9e-11, 1e-10), (4e-11, 9e-11, 1e-10)))
    numbers = {"published": 5e-11, "right": 1e-6}
    yield from cases_of("gradient_error_is", 1.5, numbers, confirmed=one, corrected=apart)
    by_norm = error_rows(4e-11, 6e-11).assign(rel_error=1e-9)
    yield from cases_of("gradient_error_is", 1.5, numbers, confirmed=[(by_norm,)])
    yield from cases_of(
        "gradient_difference_is",
        1.5,
        {"published": {"4x8x16": 5e-10}, "right": 1e-6},
        confirmed=wrapped(error_rows, 4e-10),
        corrected=wrapped(error_rows, 4e-8),
        refuted=wrapped(error_rows, 4e-2, (1e-8, 4e-2)),
    )
    wide, edge, edge_missed = (8, False), (8, True), (7, True)
    yield from cases_of(
        "spot_check_replaces",
        0,
        {"elements": "elements"},
        confirmed=[(spot(0, wide, edge),)],
        corrected=[(spot(0, wide, edge_missed),)],
        refuted=[
            (spot(0, edge, (7, False)),),
            (spot(1, wide, edge),),
            (spot(0, wide, edge_missed, (7, False)),),
        ],
    )
    faultless = [spot(0, wide, edge), spot(1, wide, edge), spot(0, edge_missed, wide)]
    kept, alarmed, missing = (one[one["drawn"] == 100] for one in faultless)
    yield from cases_of(
        "large_check_catches", 0, {"check": "elements"}, confirmed=[(kept,)], refuted=[(alarmed,), (missing,)]
    )
    usual, once = (("a", "random", error, False) for error in (4e-11, 6e-11))
    worst_counts = derivation(usual, usual, once, ("b", "random", 5e-11, False))
    yield from cases_of(
        "two_derivations_agree",
        1e-10,
        {},
        confirmed=[two(4e-11, 5e-11)],
        refuted=[two(6e-11, 5e-11), (worst_counts,)],
    )
    yield from cases_of(
        "formula_is_right",
        1e-12,
        {},
        confirmed=[formula(1e-15, 1e-15)],
        corrected=[formula(1e-15, 0.5)],
        refuted=[formula(0.5, 1e-15), formula(0.5, 0.5)],
    )
    yield from cases_of(
        "derivations_agree",
        1e-12,
        {"expected": 2},
        confirmed=[proved(1e-15, True), proved(1e-15, False)],
        refuted=[proved(1e-15, None), proved(1, True), proved(1e-15, True, 1.0)],
    )
    yield from cases_of(
        "naive_gives",
        1e-6,
        TWO,
        confirmed=wrapped(naive, ([0.0, 0.0, 0.0], 3.2, 2.0)),
        corrected=wrapped(naive, ([0.0, 2.0, 0.0], 3.2, 2.0), ([2.0, 0.0, -2.0], 0.0, 2.0)),
        refuted=wrapped(naive, ([2.0, 3.2, -2.0], 0.0, 2.0), ([0.0, 0.0, 0.0], 0.0, 1.0)),
    )
    yield from cases_of(
        "stable_is_exact",
        0,
        {},
        confirmed=wrapped(exact_on, (0.0, 0.0)),
        corrected=wrapped(exact_on, (0.0, 1e-16)) + stacked(exact_on(0.0, 0.0), exact_on(0.0, 1e-16)),
        refuted=wrapped(exact_on, (1e-16, 1e-16)),
    )
    yield from cases_of(
        "slopes_are",
        0.2,
        {"expected": {"naive": 2.0, "welford": 1.0}},
        confirmed=wrapped(growth, (2, 1)),
        refuted=wrapped(growth, (1, 1), (2, 2)),
    )
    inside, outside = wrapped(bounds, 0.9), wrapped(bounds, 1.1, float("inf"), (0.9, 1.1))
    yield from cases_of("variance_within_bounds", 1, {}, confirmed=inside, refuted=outside)
    yield from cases_of("errors_within_bounds", 1, {}, confirmed=inside, refuted=outside)
    flat, steep = wrapped(kernel_error, 0.0), wrapped(kernel_error, 1.0)
    yield from cases_of("error_stays_below", 4, {}, confirmed=flat, refuted=steep)
    yield from cases_of("error_stays_below", 3, {}, refuted=flat)  # whose largest error is 3
    yield from cases_of(
        "error_grows_with_kappa",
        0.1,
        {"expected": 1.0},
        confirmed=steep + wrapped(kernel_error, (1.0, 0.95, 1.05)),
        refuted=flat + wrapped(kernel_error, (1.0, 0.8, 1.2), (1.0, 1.0, 1.2), (1.0, 1.0, 0.8), float("inf")),
    )
    yield from cases_of(
        "cancellation_is_benign",
        16,
        {},
        confirmed=wrapped(cancellation, (5.0, 2.0)),
        corrected=wrapped(cancellation, (500.0, 2.0))
        + stacked(cancellation(5.0, 2.0), cancellation(500.0, 2.0)),
        refuted=wrapped(cancellation, (500.0, 200.0))
        + stacked(cancellation(500.0, 2.0), cancellation(500.0, 200.0)),
    )
    yield from cases_of(
        "division_last_avoids_overflow",
        0,
        {},
        confirmed=wrapped(divisions, ((0.01, 0, 64), (1.0, 64, 64))),
        corrected=wrapped(
            divisions, ((0.01, 0, 64), (100.0, 64, 0)), ((0.01, 0, 64), (1.0, 64, 64), (9.0, 64, 63))
        ),
        refuted=wrapped(divisions, ((0.01, 64, 64), (100.0, 64, 0))),
    )
    yield from cases_of(
        "division_last_avoids_overflow",
        1,
        {},
        confirmed=wrapped(divisions, ((0.01, 0, 64), (9.0, 64, 63))),
        refuted=[(divisions((0.01, 63, 64)),)],
    )
    stored, lost, spoilt = (wrapped(eps_rows, it) for it in ((1e-8, True), (0.0, True), (1e-8, False)))
    common, rare = (EPS | {"defaults": {"A": value, "B": 1e-3}} for value in (1e-8, 1e-5))
    yield from cases_of("eps_is_standard", 0, common, confirmed=stored, corrected=lost + spoilt)
    yield from cases_of("eps_is_standard", 0, rare, corrected=stored, refuted=lost + spoilt)
    unknown = [(eps_rows(1e-8, None).astype({"finite": "boolean"}),)]
    yield from cases_of("eps_is_standard", 0, common, confirmed=unknown)
    as_common = EPS | {"defaults": {"A": 1e-8, "B": 1e-5}}
    yield from cases_of("eps_is_standard", 0, as_common, corrected=stored, refuted=lost + spoilt)
    passed, some, failed = (wrapped(cases, it) for it in ((True, True), (True, False), (False, False)))
    small = [(cases(True, value=0.01),), (pd.concat([cases(True), cases(True, value=0.01)]),)]
    yield from cases_of("scales_are_sane", 10, {}, confirmed=passed, corrected=small, refuted=some)
    yield from cases_of("cases_pass", 0, {}, confirmed=passed, refuted=some)
    yield from cases_of("cases_fail", 0, {}, confirmed=failed, corrected=some, refuted=passed)

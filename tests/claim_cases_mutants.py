"""What the predicates about gradient checks must say of small tables."""

from collections.abc import Iterator

import pandas as pd

from claim_cases import Case, Tables, cases_of
from claim_frames import frame


def checked(alarms: int, *caught: bool) -> tuple[pd.DataFrame]:
    """One check on one data set: the correct kernel, then one fault after another."""
    rows = [("none", alarms > 0, alarms), *((f"fault {n}", it, 2 * it) for n, it in enumerate(caught))]
    columns = "mutant caught caught_draws"
    return (frame(columns, *rows, check="ours", setting="default", data="mixed random shifted"),)


def on_sets(*tables: tuple[pd.DataFrame]) -> tuple[pd.DataFrame]:
    """Each on a data set of its own."""
    own = [table.assign(data=f"set {number}") for number, (table,) in enumerate(tables, 1)]
    return (pd.concat(own, ignore_index=True),)


def executed(own: float, ours: int) -> tuple[pd.DataFrame]:
    (table,) = checked(0, True)
    return (table.assign(executed=True, package_caught_draws=own, caught_draws=ours),)


def covers(members: int, survivors: str = "", smallest: bool = True) -> Tables:
    """A cover of so many data sets, and the data sets that were tried."""
    rows = [(number, f"set {number}") for number in range(1, members + 1)]
    keys = {"check": "ours", "setting": "default", "survivors": survivors, "smallest": smallest}
    return frame("member data", *rows, **keys), frame("data", ("set 1",), ("set 2",))


def mutants() -> Iterator[Case]:
    yield from cases_of(
        "faults_are_caught",
        0,
        {},
        confirmed=[checked(0, True, True)],
        corrected=[checked(1, True, True)],
        refuted=[checked(0, True, False), on_sets(checked(0, True, True), checked(0, True, False))],
    )
    one, two = checked(0, False, True, True), checked(0, False, False, True)
    yield from cases_of(
        "faults_are_caught", 1, {}, confirmed=[on_sets(one, one)], refuted=[on_sets(one, two)]
    )
    yield from cases_of(
        "faults_survive",
        2,
        {},
        confirmed=[
            checked(0, False, False, True),
            on_sets(checked(0, False, False), checked(1, True, True)),
        ],
        corrected=[checked(0, False, True, True)],
        refuted=[checked(0, True, True)],
    )
    quiet, alarm = checked(0, True), checked(1, True)
    yield from cases_of(
        "correct_kernel_fails",
        0.5,
        {},
        confirmed=[alarm, on_sets(alarm, quiet)],
        corrected=[on_sets(alarm, quiet, quiet, quiet)],
        refuted=[quiet],
    )
    yield from cases_of(
        "sets_suffice",
        1,
        {"data": "set 1"},
        confirmed=[covers(1)],
        corrected=[covers(2), covers(1, smallest=False)],
        refuted=[covers(1, "eps left out")],
    )
    yield from cases_of("packages_agree", 0, {}, confirmed=[executed(2.0, 2)], refuted=[executed(1.0, 2)])

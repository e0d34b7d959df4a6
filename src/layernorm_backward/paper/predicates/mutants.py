"""Claims about what gradient checks catch: tables mutation and mutation_cover."""

import pandas as pd

from layernorm_backward.paper.predicates.judgement import (
    Judgement,
    NothingMeasured,
    among,
    count,
    listing,
    number,
    over,
    verdict,
)

UNSPOILED = "none"


def faults_are_caught(mutation: pd.DataFrame, *, tolerance: float) -> Judgement:
    """Under every check and data set selected at most `tolerance` faults are missed, and no false alarm."""
    faults, alarms = _faults(mutation), _alarms(mutation)
    missed = faults[~faults["caught"].astype(bool)]
    most = int(missed.groupby(["check", "data"]).size().max()) if len(missed) else 0
    return Judgement(
        verdict(most <= tolerance and not alarms, most <= tolerance),
        f"{count(faults['mutant'].nunique(), 'fault')}, {most} missed at most; {_number(alarms)}",
        _what(mutation),
        f"missed: {listing(dict.fromkeys(missed['mutant']))}",
    )


def faults_survive(mutation: pd.DataFrame, *, tolerance: float) -> Judgement:
    """At least `tolerance` faults are caught by no check and data set selected that pass the right kernel."""
    faults, alarms = _faults(mutation), _alarms(mutation)
    useful = faults[[pair not in alarms for pair in zip(faults["check"], faults["data"], strict=True)]]
    if useful.empty:
        raise NothingMeasured("no check and data set selected pass the right kernel")
    caught = set(useful[useful["caught"].astype(bool)]["mutant"])
    survivors = [name for name in dict.fromkeys(faults["mutant"]) if name not in caught]
    return Judgement(
        verdict(len(survivors) >= tolerance, len(survivors) > 0),
        f"{len(survivors)} of {count(faults['mutant'].nunique(), 'fault')} survive; {_number(alarms)}",
        _what(mutation),
        f"survivors: {listing(survivors)}",
    )


def right_kernel_fails(mutation: pd.DataFrame, *, tolerance: float) -> Judgement:
    """The unspoiled kernel is caught on at least the share `tolerance` of checks and data sets selected."""
    cells, alarms = len(_unspoiled(mutation)), _alarms(mutation)
    return Judgement(
        verdict(len(alarms) >= tolerance * cells, bool(alarms)),
        f"{_number(alarms)} in {count(cells, 'cell')}",
        _what(mutation),
        f"expected: at least {number(tolerance)} of the cells, in one draw or more",
    )


def sets_suffice(
    mutation_cover: pd.DataFrame, mutation: pd.DataFrame, *, data: str, tolerance: float
) -> Judgement:
    """At most `tolerance` data sets catch every fault, for each check; proven smallest, without survivors.

    Where they do not, the data set `data` is needed, to tell that there is none such.
    """
    if mutation_cover.empty:
        raise NothingMeasured("no cover selected")
    sizes = mutation_cover.groupby(["check", "setting"])["member"].max()
    whole = bool((mutation_cover["survivors"] == "").all() and (sizes > 0).all())
    proven = bool(mutation_cover["smallest"].astype(bool).all())
    enough = whole and proven and bool(sizes.max() <= tolerance)
    if not enough:
        among(mutation["data"], data)
    return Judgement(
        verdict(enough, whole),
        f"{count(int(sizes.max()), 'data set')}: {listing(mutation_cover['data'])}",
        over(mutation_cover, "check", "setting"),
        f"proven smallest: {proven}; survivors: {listing(filter(None, mutation_cover['survivors']))}",
    )


def packages_agree(mutation: pd.DataFrame, *, tolerance: float) -> Judgement:
    """The package's own verdicts differ from those of the restated rule in at most `tolerance` rows."""
    run = mutation[mutation["executed"].astype(bool)]
    if run.empty:
        raise NothingMeasured("no package's own check was run")
    differ = run[run["package_caught_draws"] != run["caught_draws"]]
    return Judgement(
        verdict(len(differ) <= tolerance),
        f"{len(run) - len(differ)} of {count(len(run), 'verdict')} agree, of {over(run, 'check')}",
        over(run, "setting", "data"),
        f"allowed: {number(tolerance)} others",
    )


def _faults(mutation: pd.DataFrame) -> pd.DataFrame:
    found = mutation[mutation["mutant"] != UNSPOILED]
    if found.empty:
        raise NothingMeasured("no fault under the checks and data selected")
    return found


def _unspoiled(mutation: pd.DataFrame) -> pd.DataFrame:
    found = mutation[mutation["mutant"] == UNSPOILED]
    if found.empty:
        raise NothingMeasured("the right kernel is not among the rows selected")
    return found


def _alarms(mutation: pd.DataFrame) -> set[tuple[str, str]]:
    """Pairs of check and data set that fail the right kernel in a draw."""
    failed = _unspoiled(mutation).query("caught_draws > 0")
    return set(zip(failed["check"], failed["data"], strict=True))


def _number(alarms: set[tuple[str, str]]) -> str:
    return count(len(alarms), "false alarm")


def _what(mutation: pd.DataFrame) -> str:
    return over(mutation, "check", "setting", "data")

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

CORRECT = "none"


def faults_are_caught(mutation: pd.DataFrame, *, tolerance: float) -> Judgement:
    """Each selected check on each data set misses at most `tolerance` faults, and none gives a false alarm;
    corrected where some do."""
    faults, alarms = _faults(mutation), _alarms(mutation)
    missed = faults[~faults["caught"].astype(bool)]
    most = int(missed.groupby(["check", "data"]).size().max()) if len(missed) else 0
    return Judgement(
        verdict(most <= tolerance and not alarms, most <= tolerance),
        f"{count(faults['mutant'].nunique(), 'fault')}, at most {most} missed; {_number(alarms)}",
        _what(mutation),
        f"missed: {listing(dict.fromkeys(missed['mutant']))}",
    )


def faults_survive(mutation: pd.DataFrame, *, tolerance: float) -> Judgement:
    """At least `tolerance` faults are caught by none of the selected checks and data sets that pass the
    correct kernel."""
    faults, alarms = _faults(mutation), _alarms(mutation)
    useful = faults[[pair not in alarms for pair in zip(faults["check"], faults["data"], strict=True)]]
    if useful.empty:
        raise NothingMeasured("no selected check and data set pass the correct kernel")
    caught = set(useful[useful["caught"].astype(bool)]["mutant"])
    survivors = [name for name in dict.fromkeys(faults["mutant"]) if name not in caught]
    return Judgement(
        verdict(len(survivors) >= tolerance, len(survivors) > 0),
        f"{len(survivors)} of {count(faults['mutant'].nunique(), 'fault')} survive; {_number(alarms)}",
        _what(mutation),
        f"survivors: {listing(survivors)}",
    )


def correct_kernel_fails(mutation: pd.DataFrame, *, tolerance: float) -> Judgement:
    """The correct kernel fails in at least the share `tolerance` of the selected checks and data sets."""
    cells, alarms = len(_correct(mutation)), _alarms(mutation)
    return Judgement(
        verdict(len(alarms) >= tolerance * cells, bool(alarms)),
        f"{_number(alarms)} in {count(cells, 'cell')}",
        _what(mutation),
        f"expected: in at least {number(tolerance)} of the cells, in one draw or more",
    )


def sets_suffice(
    mutation_cover: pd.DataFrame, mutation: pd.DataFrame, *, data: str, tolerance: float
) -> Judgement:
    """For each check, at most `tolerance` data sets catch every fault, and no smaller set of them does
    (proven).

    To conclude that more are needed, the data set `data` must have been tried.
    """
    if mutation_cover.empty:
        raise NothingMeasured("no covering set is selected")
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
    """The verdicts of the package itself differ from those of our copy of its rule in at most `tolerance`
    rows."""
    run = mutation[mutation["executed"].astype(bool)]
    if run.empty:
        raise NothingMeasured("the check of no package was run")
    differ = run[run["package_caught_draws"] != run["caught_draws"]]
    return Judgement(
        verdict(len(differ) <= tolerance),
        f"{len(run) - len(differ)} of {count(len(run), 'verdict')} agree, of {over(run, 'check')}",
        over(run, "setting", "data"),
        f"allowed: {number(tolerance)} that disagree",
    )


def _faults(mutation: pd.DataFrame) -> pd.DataFrame:
    found = mutation[mutation["mutant"] != CORRECT]
    if found.empty:
        raise NothingMeasured("no fault was measured with the selected checks and data sets")
    return found


def _correct(mutation: pd.DataFrame) -> pd.DataFrame:
    found = mutation[mutation["mutant"] == CORRECT]
    if found.empty:
        raise NothingMeasured("the correct kernel is not among the selected rows")
    return found


def _alarms(mutation: pd.DataFrame) -> set[tuple[str, str]]:
    """Pairs of check and data set that fail the correct kernel in some draw."""
    failed = _correct(mutation).query("caught_draws > 0")
    return set(zip(failed["check"], failed["data"], strict=True))


def _number(alarms: set[tuple[str, str]]) -> str:
    return count(len(alarms), "false alarm")


def _what(mutation: pd.DataFrame) -> str:
    return over(mutation, "check", "setting", "data")

"""The smallest set of data on which a gradient check catches every fault, by exact set cover.

For each check and setting over its data sets, and for groups of checks at once; `any` over pairs of data and
check, of all checks, and `packages` of those that come with a package. Data on which the unspoiled kernel is
caught are left out: there a check tells nothing. Faults
that no data set left lets it catch are its survivors.
"""

from collections.abc import Collection, Iterator
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from layernorm_backward.experiments._arguments import Names, each_of
from layernorm_backward.experiments._set_cover import smallest_cover
from layernorm_backward.gradient_check.mutants import CORRECT
from layernorm_backward.gradient_check.rules import RULES
from layernorm_backward.records.tabulate import table
from layernorm_backward.storage.yamlfile import REFUSED

NEEDS = ("mutation",)


ANY, PACKAGES = "any", "packages"


def _free(together: dict[str, list[str]]) -> dict[str, list[str]]:
    """Refuses names that the table has for something else."""
    taken = [*RULES, ANY, PACKAGES]
    for name in together:
        if name in taken:
            said = {"name": repr(name), "taken": ", ".join(taken)}
            raise PydanticCustomError(REFUSED, "{name} is taken; allowed: none of {taken}", said)
    return together


def run(
    *,
    together: Annotated[dict[str, Annotated[Names, each_of(RULES)]], AfterValidator(_free)],
    mutation: pd.DataFrame,
) -> pd.DataFrame:
    """One row per member of the smallest set, in the order in which they add most.

    together: names for checks whose data are to catch every fault in each of them at once. ValueError for a
    check that `mutation` does not hold.
    """
    _require_measured(together, mutation["check"].unique())
    rows: list[dict[str, Any]] = []
    for setting, part in mutation.groupby("setting", sort=False):
        kills = {name: _kills(one) for name, one in part.groupby("check", sort=False)}
        for check, found in _covers(kills, together).items():
            key = {"check": check, "setting": setting, "mutants": found.shape[1]}
            rows += [key | row for row in _members(found)]
    return table(rows, "mutation_cover")


def _require_measured(together: dict[str, list[str]], checks: Collection[str]) -> None:
    for name, wanted in together.items():
        if missing := [check for check in wanted if check not in checks]:
            allowed = f"those of the table mutation: {', '.join(checks)}"
            raise ValueError(f"together: {name}: no {', '.join(missing)}; allowed: {allowed}")


def _covers(kills: dict[str, pd.DataFrame], together: dict[str, list[str]]) -> dict[str, pd.DataFrame]:
    """What is to be covered: each check, those that belong together, pairs of data and check."""
    covers = dict(kills)
    for name, checks in together.items():
        covers[name] = pd.concat([kills[check] for check in checks], axis=1, join="inner", keys=checks)
    covers[ANY] = _paired(kills)
    packaged = {name: found for name, found in kills.items() if RULES[name].package}
    return covers | ({PACKAGES: _paired(packaged)} if packaged else {})


def _kills(part: pd.DataFrame) -> pd.DataFrame:
    """Data sets x mutants: caught in every draw, where the unspoiled kernel never is."""
    alarms = part[(part["mutant"] == CORRECT) & (part["caught_draws"] > 0)]["data"]
    mutants = part[part["mutant"] != CORRECT]
    caught = mutants.pivot(index="data", columns="mutant", values="caught").astype(bool)
    return caught.loc[[name for name in part["data"].unique() if name not in set(alarms)]]


def _paired(kills: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The same over pairs of data and check."""
    return pd.concat(
        [found.rename(index=lambda data, name=name: f"{data}: {name}") for name, found in kills.items()]
    )


def _members(kills: pd.DataFrame) -> Iterator[dict[str, Any]]:
    reached = kills.any(axis=0)
    survivors = ", ".join(" in ".join(np.atleast_1d(name)[::-1]) for name in kills.columns[~reached])
    if not reached.any():
        yield {"member": 0, "killed": 0, "added": 0, "smallest": True, "survivors": survivors}
        return
    coverage = kills.loc[:, reached].to_numpy()
    chosen, proven = smallest_cover(coverage)
    left = np.ones(coverage.shape[1], dtype=bool)
    for member in range(1, len(chosen) + 1):
        best = max(chosen, key=lambda place: (coverage[place] & left).sum())
        chosen = [place for place in chosen if place != best]
        yield {
            "member": member,
            "data": str(kills.index[best]),
            "killed": int(coverage[best].sum()),
            "added": int((coverage[best] & left).sum()),
            "smallest": proven,
            "survivors": survivors,
        }
        left &= ~coverage[best]

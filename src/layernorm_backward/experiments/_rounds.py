"""Repetitions in rounds: each round times all cells once, and takes a part of each cell's repetitions.

A slowdown of the machine for some seconds then affects some repetitions of a cell and not all of them.
"""

from collections.abc import Iterable
from typing import NamedTuple

import pandas as pd

from layernorm_backward import stopwatch


class RoundBudget(NamedTuple):
    """The arguments of `stopwatch.compare` for one cell in one round."""

    repeats: int
    at_least: int
    budget_s: float
    seed: int


def round_budgets(rounds: int, repeats: int, at_least: int, budget_s: float, seed: int) -> list[RoundBudget]:
    """The repetitions and seconds of a cell divided among the rounds; each round has a seed of its own.

    ValueError where a round would have no repetition.
    """
    if not 1 <= rounds <= min(repeats, at_least):
        allowed = f"1 to {min(repeats, at_least)}, the least repetitions of a cell"
        raise ValueError(f"rounds is {rounds}; allowed: {allowed}")
    counts = zip(_split(repeats, rounds), _split(at_least, rounds), strict=True)
    return [
        RoundBudget(most, least, budget_s / rounds, seed + number)
        for number, (most, least) in enumerate(counts)
    ]


def joined(parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """The samples of one cell from all rounds, with their `round`, and repetitions numbered consecutively."""
    return consecutive(part.assign(round=number) for number, part in enumerate(parts))


def consecutive(parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """The samples of all parts, with repetitions numbered consecutively."""
    found, count = [], 0
    for part in parts:
        found.append(part.assign(repeat=part["repeat"] + count))
        count += int(part["repeat"].max()) + 1
    return pd.concat(found, ignore_index=True)


def known_s(parts: Iterable[pd.DataFrame]) -> dict[str, float]:
    """Median seconds per run of each call in the earlier rounds; empty in the first."""
    found = list(parts)
    return pd.concat(found).groupby("name")["seconds"].median().to_dict() if found else {}


def complete(samples: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
    """Seconds by repetition and name, of the repetitions with all names that count (`stopwatch.counted`)."""
    some = samples[samples["name"].isin(list(names))]
    wide = some.pivot(index="repeat", columns="name", values=["seconds", "waited"]).dropna()
    wide = wide[stopwatch.counted(wide["waited"].to_numpy(bool).T)]
    return wide["seconds"].astype(float)


def _split(count: int, rounds: int) -> list[int]:
    """`count` divided into `rounds` parts that differ by at most 1, the larger ones first."""
    return [count // rounds + (number < count % rounds) for number in range(rounds)]

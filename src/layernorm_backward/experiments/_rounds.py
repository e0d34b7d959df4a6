"""Repetitions in rounds: all cells are timed once after the other, and then again.

What slows the machine for seconds then falls on some repetitions of a cell and not on all of them.
"""

from collections.abc import Iterable
from typing import NamedTuple

import pandas as pd

from layernorm_backward import stopwatch


class Share(NamedTuple):
    """What `stopwatch.compare` does in one round."""

    repeats: int
    at_least: int
    budget_s: float
    seed: int


def shares(rounds: int, repeats: int, at_least: int, budget_s: float, seed: int) -> list[Share]:
    """The share of each round in the repetitions and the seconds of a cell; its order of calls is its own.

    ValueError where a round would have no repetition.
    """
    if not 1 <= rounds <= min(repeats, at_least):
        allowed = f"1 to {min(repeats, at_least)}, the least repetitions of a cell"
        raise ValueError(f"rounds is {rounds}; allowed: {allowed}")
    counts = zip(_split(repeats, rounds), _split(at_least, rounds), strict=True)
    return [
        Share(most, least, budget_s / rounds, seed + number) for number, (most, least) in enumerate(counts)
    ]


def joined(parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """The samples of one cell from all rounds, with their `round`, and their repetitions counted through."""
    found, count = [], 0
    for number, part in enumerate(parts):
        found.append(part.assign(repeat=part["repeat"] + count, round=number))
        count += int(part["repeat"].max()) + 1
    return pd.concat(found, ignore_index=True)


def known_s(parts: Iterable[pd.DataFrame]) -> dict[str, float]:
    """Seconds that a run of each call took in the rounds before; empty in the first."""
    found = list(parts)
    return pd.concat(found).groupby("name")["seconds"].median().to_dict() if found else {}


def complete(samples: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
    """Seconds by repetition and name: of repetitions that hold all names and that count (`stopwatch`)."""
    some = samples[samples["name"].isin(list(names))]
    wide = some.pivot(index="repeat", columns="name", values=["seconds", "waited"]).dropna()
    wide = wide[stopwatch.counted(wide["waited"].to_numpy(bool).T)]
    return wide["seconds"].astype(float)


def _split(count: int, rounds: int) -> list[int]:
    """`count` in `rounds` parts as equal as can be, the larger ones first."""
    return [count // rounds + (number < count % rounds) for number in range(rounds)]

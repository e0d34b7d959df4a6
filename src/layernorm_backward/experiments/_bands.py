"""The repetitions of a cell of `spells` in bands, by how slow the loop `update` was."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from layernorm_backward import stopwatch
from layernorm_backward.experiments._cells import Cell
from layernorm_backward.experiments._rounds import complete
from layernorm_backward.timing import cell_roof

LEAST = 0.02  # the quantile that is taken as the least time


def least(threads: int, timed: Mapping[Cell, pd.DataFrame], loops: tuple[str, ...]) -> dict[str, float]:
    """The least time of each loop on this number of threads."""
    alike = pd.concat(samples for cell, samples in timed.items() if cell.threads == threads)
    return {name: alike.loc[alike["name"] == name, "seconds"].quantile(LEAST) for name in loops}


def rows(
    cell: Cell, kernel: str, samples: pd.DataFrame, fastest: dict[str, float], bands: list[float]
) -> Iterator[dict[str, Any]]:
    """The rows of one kernel and cell: all repetitions, then those of each band.

    fastest: the least time of each loop.
    """
    names = {"kernel": kernel, "roof": cell_roof.fastest(samples, cell.direction)}
    names |= {loop: loop for loop in fastest}
    slower = _slowdowns(samples, names, fastest)
    yield _row(0, samples, slower, names) | _correlations(slower)
    for band, (low, high) in enumerate(pairwise([0.0, *bands, np.inf]), 1):
        within = slower[(slower["update"] >= low) & (slower["update"] < high)]
        yield {"update_from": low, "update_below": high} | _row(band, samples, within, names)


def _slowdowns(samples: pd.DataFrame, names: dict[str, str], fastest: dict[str, float]) -> pd.DataFrame:
    """Times over their least, one row per repetition with all calls that counts (`stopwatch.counted`)."""
    found = complete(samples, names.values())
    seconds = pd.DataFrame({what: found[name] for what, name in names.items()})
    return seconds / pd.Series(seconds.quantile(LEAST).to_dict() | fastest)


def _correlations(slower: pd.DataFrame) -> dict[str, float]:
    if len(slower) < stopwatch.FEWEST:
        return {}
    others = [what for what in slower if what != "update"]
    return {f"{it}_correlation": stats.spearmanr(slower[it], slower["update"]).statistic for it in others}


def _row(band: int, samples: pd.DataFrame, slower: pd.DataFrame, names: dict[str, str]) -> dict[str, Any]:
    row = {"band": band, "repeats": len(slower), "roof_operation": names["roof"]}
    if len(slower) < stopwatch.FEWEST:
        return row | {"reason": f"{len(slower)} repetitions, fewer than {stopwatch.FEWEST}"}
    its = samples[samples["repeat"].isin(slower.index)]
    fraction = stopwatch.ratio(its, names["roof"], names["kernel"])
    slowdowns = {f"{what}_slowdown": slower[what].median() for what in names}
    return row | fraction.columns("roof_fraction") | slowdowns

"""Claims about spells of the machine: table spells."""

import numpy as np
import pandas as pd

from layernorm_backward.paper.predicates.judgement import (
    ClaimMisfit,
    Judgement,
    NothingMeasured,
    number,
    over,
    span,
    verdict,
)

CELL = ["kernel", "direction", "dtype", "hidden", "threads"]
FRACTION = ["roof_fraction", "roof_fraction_low", "roof_fraction_high"]


def core_slows_kernel_more(spells: pd.DataFrame, *, slowed: float, tolerance: float) -> Judgement:
    """In every cell and band in which `update` takes at least `slowed` times its minimum, the kernel loses
    more than the share `tolerance` of the fraction of the roof that it reaches on a free core.

    Corrected where it does in the median; not measured where it does not, but no interval excludes it.
    ValueError if no band begins at `slowed`.
    """
    what = over(spells, *CELL)
    kept = _kept(spells, slowed)
    if kept.empty:
        reason = f"no cell ran both on a free core and where the loop took {number(slowed)} times its minimum"
        return Judgement("not measured", "", what, reason)
    left, median = 1 - tolerance, kept["kept"].median()
    good, more = kept["kept_high"] < left, kept["kept_low"] >= left
    found = verdict(bool(good.all()), bool(median < left))
    return Judgement(
        "not measured" if found == "refuted" and not more.any() else found,
        f"the kernel keeps {span(kept['kept'])} of its fraction on a free core, median {number(median)}",
        f"{what}; the loop in the first-level cache takes at least {number(slowed)} times its "
        f"minimum, in {span(kept['repeats'])} repetitions per band",
        f"with the whole interval, {int(good.sum())} of {len(good)} cells and bands lose more than "
        f"{number(100 * tolerance)} %, and {int(more.sum())} lose no more",
    )


def _kept(spells: pd.DataFrame, slowed: float) -> pd.DataFrame:
    """For each cell and band from `slowed` on: `repeats`, and `kept`, the ratio of its fraction of the roof
    to that of the first band, with the interval of this ratio."""
    bands = spells[spells["band"] > 0].dropna(subset=["update_from"])
    if bands["roof_fraction"].dropna().empty:
        raise NothingMeasured("no band of repetitions was measured")
    if slowed not in set(bands["update_from"]):
        starts = ", ".join(map(number, sorted(set(bands["update_from"]))))
        raise ClaimMisfit(f"slowed is {number(slowed)}; allowed: the lower end of a band: {starts}")
    free = bands[bands["band"] == 1].set_index(CELL)
    taken = bands[bands["update_from"] >= slowed].set_index([*CELL, "band"])
    free = free.reindex(taken.index.droplevel("band")).set_axis(taken.index)
    return taken[["repeats"]].join(_ratio(taken[FRACTION], free[FRACTION])).dropna()


def _ratio(above: pd.DataFrame, below: pd.DataFrame) -> pd.DataFrame:
    """kept, kept_low and kept_high: the ratio of two fractions, each with its interval.

    The interval is that of a difference of two independent estimates, here logarithms: the squares of the
    distances to the ends are added (G. Y. Zou and A. Donner, Statistics in Medicine 27, 1693-1702, 2008).
    """
    (upper, upper_low, upper_high), (lower, lower_low, lower_high) = (
        np.log(part.to_numpy(float)).T for part in (above, below)
    )
    middle = upper - lower
    low = middle - np.hypot(upper - upper_low, lower_high - lower)
    high = middle + np.hypot(upper_high - upper, lower - lower_low)
    return pd.DataFrame(
        np.exp([middle, low, high]).T, index=above.index, columns=["kept", "kept_low", "kept_high"]
    )

"""Claims about spells of the machine: table spells."""

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


def core_slows_kernel_more(spells: pd.DataFrame, *, slowed: float, tolerance: float) -> Judgement:
    """Where `update` takes `slowed` times its least or more, the kernel loses more than the share `tolerance`
    of the fraction of the roof that it reaches on a free core, in every cell and band; corrected where it
    does in the median; not measured where it does not, but the interval of every cell and band leaves that
    open. ValueError where no band begins at `slowed`."""
    what = over(spells, *CELL)
    kept = _kept(spells, slowed)
    if kept.empty:
        told = f"no cell met both a free core and a loop that took {number(slowed)} times its least"
        return Judgement("not measured", "", what, told)
    left, median = 1 - tolerance, kept["kept"].median()
    good, more = kept["kept_high"] < left, kept["kept_low"] >= left
    found = verdict(bool(good.all()), bool(median < left))
    return Judgement(
        "not measured" if found == "refuted" and not more.any() else found,
        f"{span(kept['kept'])} of the fraction on a free core is left, median {number(median)}",
        f"{what}; the loop in the first-level cache takes {number(slowed)} times its least or more "
        f"in {span(kept['repeats'])} repetitions of a band",
        f"by their intervals {int(good.sum())} of {len(good)} cells and bands lose more than "
        f"{number(100 * tolerance)} %, and {int(more.sum())} lose less",
    )


def _kept(spells: pd.DataFrame, slowed: float) -> pd.DataFrame:
    """Of each cell and band from `slowed` on: `kept`, its fraction of the roof over that of the first band,
    with the interval of the former, and `repeats`."""
    bands = spells[spells["band"] > 0].dropna(subset=["update_from"])
    if bands["roof_fraction"].dropna().empty:
        raise NothingMeasured("no measured band of repetitions")
    if slowed not in set(bands["update_from"]):
        starts = ", ".join(map(number, sorted(set(bands["update_from"]))))
        raise ClaimMisfit(f"slowed is {number(slowed)}; allowed: where a band begins: {starts}")
    free = bands[bands["band"] == 1].set_index(CELL)["roof_fraction"]
    taken = bands[bands["update_from"] >= slowed].set_index([*CELL, "band"])
    fractions = taken[["roof_fraction", "roof_fraction_low", "roof_fraction_high"]]
    kept = fractions.div(free.reindex(taken.index.droplevel("band")).to_numpy(), axis=0)
    return taken[["repeats"]].join(kept.set_axis(["kept", "kept_low", "kept_high"], axis=1)).dropna()

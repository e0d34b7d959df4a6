"""Claims about spells of the machine: table spells."""

import pandas as pd

from layernorm_backward.paper.predicates.judgement import (
    Judgement,
    NothingMeasured,
    number,
    over,
    span,
    verdict,
)

CELL = ["kernel", "direction", "dtype", "hidden", "threads"]


def core_slows_kernel_more(spells: pd.DataFrame, *, slowed: float, tolerance: float) -> Judgement:
    """From the repetitions with a free core to those in which `update` takes `slowed` times its least or
    more, the kernel's time grows by more than the factor 1 + tolerance above its roof's, in every cell with
    such repetitions; corrected where it does in the median cell."""
    what = over(spells, *CELL)
    growth = _growth(spells, slowed)
    if growth.empty:
        told = f"no cell met both a free core and a loop that took {number(slowed)} times its least"
        return Judgement("not measured", "", what, told)
    share = growth["kernel"] / growth["roof"]
    good = share > 1 + tolerance
    return Judgement(
        verdict(bool(good.all()), bool(share.median() > 1 + tolerance)),
        f"the kernel takes {span(growth['kernel'])} times as long, its roof {span(growth['roof'])} times",
        f"{what}; the loop in the first-level cache takes {span(growth['update'])} times as long",
        f"{int(good.sum())} of {len(good)} cells lose more than {number(100 * tolerance)} % against the roof",
    )


def _growth(spells: pd.DataFrame, slowed: float) -> pd.DataFrame:
    """Of each cell the slowdowns of its last band from `slowed` on, over those of its first."""
    names = {name: f"{name}_slowdown" for name in ("kernel", "roof", "update")}
    bands = spells[spells["band"] > 0].dropna(subset=list(names.values())).sort_values("band")
    if bands.empty:
        raise NothingMeasured("no measured band of repetitions")
    first = bands[bands["band"] == 1].groupby(CELL).first()
    last = bands[bands["update_from"] >= slowed].groupby(CELL).last()
    return pd.DataFrame({name: last[column] / first[column] for name, column in names.items()}).dropna()

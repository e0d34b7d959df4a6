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
    """Between the repetitions with the freest and those with the least free core, the kernel's time grows by
    more than the factor 1 + tolerance above its roof's, in every cell in which that of `update` grows by the
    factor `slowed` or more; corrected where it does in the median cell."""
    what = over(spells, *CELL)
    growth = _growth(spells)
    growth = growth[growth["update"] >= slowed]
    if growth.empty:
        told = (
            f"no spell in which the loop in the first-level cache took {number(slowed)} times as long was met"
        )
        return Judgement("not measured", "", what, told)
    share = growth["kernel"] / growth["roof"]
    good = share > 1 + tolerance
    return Judgement(
        verdict(bool(good.all()), bool(share.median() > 1 + tolerance)),
        f"the kernel takes {span(growth['kernel'])} times as long, its roof {span(growth['roof'])} times",
        f"{what}; the loop in the first-level cache takes {span(growth['update'])} times as long",
        f"{int(good.sum())} of {len(good)} cells with such spells lose more than "
        f"{number(100 * tolerance)} % against their roof",
    )


def _growth(spells: pd.DataFrame) -> pd.DataFrame:
    """Of each cell the slowdowns of its last part over those of its first."""
    names = {name: f"{name}_slowdown" for name in ("kernel", "roof", "update")}
    parts = spells[spells["part"] > 0].dropna(subset=list(names.values())).sort_values("part").groupby(CELL)
    if not len(parts):
        raise NothingMeasured("no measured parts of repetitions")
    first, last = parts.first(), parts.last()
    return pd.DataFrame({name: last[column] / first[column] for name, column in names.items()})

"""Claims about ordinary and non-temporal stores (table stores) and the page offset (table page_offset).

For the gain of non-temporal stores beyond the cache see `decisions`.
"""

import pandas as pd

from layernorm_backward.paper.predicates.judgement import Judgement, number, over, pick, span, verdict


def stores_chosen_well(stores: pd.DataFrame, *, tolerance: float) -> Judgement:
    """Followed by a read of the result, the kind of stores that the kernel chooses takes at most the share
    `tolerance` longer than the other kind, in every cell; corrected where it does in the median cell."""
    ratio = pick(stores, "ratio", then="read")
    chosen = ratio.where(~stores.loc[ratio.index, "stream"].astype(bool), 1 / ratio)
    good = chosen <= 1 + tolerance
    return Judgement(
        verdict(bool(good.all()), bool(chosen.median() <= 1 + tolerance)),
        f"{span(chosen)} times the time of the other kind, median {number(chosen.median())}",
        _where(stores),
        f"{int(good.sum())} of {len(good)} cells stay within {number(100 * tolerance)} %",
    )


def ordinary_within(stores: pd.DataFrame, *, tolerance: float) -> Judgement:
    """Followed by a read of the result, ordinary stores take at most the share `tolerance` longer than
    non-temporal ones in every selected cell; corrected where they do in some."""
    ratio = pick(stores, "ratio", then="read")
    good = ratio <= 1 + tolerance
    lost = stores.loc[good.index[~good], "bytes"]
    least = (
        f"the others have arrays of {number(lost.min() / 1e6)} MB and more" if len(lost) else "no cell loses"
    )
    return Judgement(
        verdict(bool(good.all()), bool(good.any())),
        f"{span(ratio)} times the time with non-temporal stores",
        _where(stores),
        f"{int(good.sum())} of {len(good)} cells stay within {number(100 * tolerance)} %; {least}",
    )


def place_costs(page_offset: pd.DataFrame, *, tolerance: float) -> Judgement:
    """Every selected cell differs by the rule of differences, and takes more than the share `tolerance`
    longer than with an offset of half a page; corrected where the median cell does."""
    ratio = pick(page_offset, "ratio")
    longer = ratio > 1 + tolerance
    sure = page_offset.loc[ratio.index, "differs"].astype(bool) & longer
    return Judgement(
        verdict(bool(sure.all()), bool(ratio.median() > 1 + tolerance)),
        f"{span(ratio)} times the time with an offset of half a page, median {number(ratio.median())}",
        over(page_offset, "place", "direction", "dtype", "hidden", "threads", "working_set"),
        f"{int(sure.sum())} of {len(ratio)} cells take over {number(100 * tolerance)} % longer and "
        "differ by the rule of differences",
    )


def _where(stores: pd.DataFrame) -> str:
    return over(stores, "direction", "dtype", "hidden", "threads", "working_set")

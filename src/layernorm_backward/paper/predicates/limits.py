"""Claims about overflow and underflow: tables division_order and eps."""

import math

import pandas as pd

from layernorm_backward.paper.predicates.judgement import (
    Judgement,
    among,
    listing,
    number,
    over,
    pick,
    said,
    verdict,
)


def division_last_avoids_overflow(division_order: pd.DataFrame, *, tolerance: float) -> Judgement:
    """Dividing after the subtraction keeps over `tolerance` more rows finite in some cell, and fewer in none;
    corrected where it keeps fewer in some."""
    pick(division_order, "finite_rows")
    keys = ["upstream", "std", "share"]
    finite = division_order.pivot_table(index=keys, columns="division", values="finite_rows", aggfunc="sum")
    among(finite.columns, "before", "after")
    gain = (finite["after"] - finite["before"]).astype(int)
    wins, losses = gain[gain > tolerance], gain[gain < -tolerance]
    rows = int(division_order["rows"].iloc[0])
    return Judgement(
        verdict(len(wins) > 0 and losses.empty, len(wins) > 0),
        f"dividing last, up to {max(gain.max(), 0)} of {rows} rows more are finite ({_cells(wins)}), and up "
        f"to {max(-gain.min(), 0)} fewer ({_cells(losses)})",
        f"float32, gamma = 1, {over(division_order, 'hidden')}; max|dz| over the largest finite "
        f"number: {over(division_order, 'share')}",
        said(
            losses.empty,
            "dividing last loses rows in no cell",
            f"dividing first loses rows at std {_stds(wins)}, dividing last at {_stds(losses)}",
        ),
    )


def eps_is_standard(
    eps: pd.DataFrame, *, ours: float, theirs: float, defaults: dict[str, float], tolerance: float
) -> Judgement:
    """`ours` is the default of more libraries than `theirs`, and both exceed `tolerance` when stored;
    corrected where one of the two holds."""
    near = {it: eps[[math.isclose(value, it) for value in eps["eps"]]] for it in (ours, theirs)}
    among((it for it, rows in near.items() if len(rows)), ours, theirs)
    both = pd.concat(near.values())
    lost = both[pick(both, "eps_in_dtype") <= tolerance]
    spoilt = both[~both["finite"].fillna(True).astype(bool)]
    users = {value: [name for name, it in defaults.items() if it == value] for value in (ours, theirs)}
    standard, fine = len(users[ours]) > len(users[theirs]), lost.empty and spoilt.empty
    return Judgement(
        verdict(standard and fine, standard or fine),
        f"default of: {number(ours)} {listing(users[ours])}, {number(theirs)} {listing(users[theirs])}; "
        f"rounds to 0: {_places(lost, 'dtype')}; results not finite: {_places(spoilt, 'dtype', 'row_kind')}",
        f"documented defaults of {listing(defaults)}; {over(both, 'dtype', 'row_kind', 'kernel')}",
        f"{number(ours)} is {said(standard, 'more', 'not more')} common than {number(theirs)}; "
        + said(fine, "both work in every dtype", f"one rounds to 0 or fails: {_places(lost, 'dtype')}"),
    )


def _places(rows: pd.DataFrame, *columns: str) -> str:
    places = rows[["eps", *columns]].drop_duplicates().itertuples(index=False)
    return listing(f"{number(place[0])} in {' '.join(place[1:])}" for place in places)


def _stds(cells: pd.Series) -> str:
    return listing(number(std) for std in cells.index.unique("std"))


def _cells(cells: pd.Series) -> str:
    return listing(f"std {number(std)}, share {number(share)}, {kind} dz" for kind, std, share in cells.index)

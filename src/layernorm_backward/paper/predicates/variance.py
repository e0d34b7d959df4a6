"""Claims about algorithms for the variance: tables variance and variance_time."""

import pandas as pd

from layernorm_backward.paper.predicates.forms import within_bounds
from layernorm_backward.paper.predicates.judgement import (
    Judgement,
    among,
    listing,
    number,
    over,
    pick,
    power,
    said,
    slope,
    span,
    verdict,
)

FORMS = {"naive": "S2/n - (S/n)^2", "naive_s2": "(S2 - S^2/n)/n", "naive_nn": "S2/n - S^2/n^2"}
ROWS = {
    "ladder": "the row offset + [0, 1, 2, 3, 4]",
    "long_ladder": "its five elements repeated",
    "gaussian": "rows offset + N(0,1)",
}


def naive_gives(variance: pd.DataFrame, *, naive: float, stable: float, tolerance: float) -> Judgement:
    """On every row the naive variance is `naive` and the two-pass variance `stable`, within the tolerance;
    corrected where the former holds on some rows. The value also lists the other naive forms."""
    forms = variance[variance["algorithm"].isin(FORMS)]
    agree = (pick(forms, "computed", algorithm="naive") - naive).abs() <= tolerance
    two_pass = pick(variance, "computed", algorithm="two_pass")
    right = bool(((two_pass - stable).abs() <= tolerance).all())
    return Judgement(
        verdict(bool(agree.all()) and right, bool(agree.any()) and right),
        f"{_by_row(forms)}; two-pass {span(two_pass)}",
        f"float64, offset {number(variance['offset'].iloc[0])}; {_rows(forms)}; sums as a binary tree",
        f"{int(agree.sum())} of {len(agree)} rows give {number(naive)} as {FORMS['naive']}",
    )


def stable_is_exact(variance: pd.DataFrame, *, tolerance: float) -> Judgement:
    """The relative error of an algorithm is at most the tolerance on every kind of row; corrected where it is
    on some."""
    errors = pick(variance, "rel_error_max").groupby(variance["data"].map(ROWS.__getitem__), sort=False).max()
    exact = errors <= tolerance
    where = listing(errors.index[exact])
    return Judgement(
        verdict(bool(exact.all()), bool(exact.any())),
        f"relative error up to {'; '.join(f'{number(error)} ({rows})' for rows, error in errors.items())}",
        over(variance, "dtype", "algorithm", "offset"),
        said(
            bool(exact.all()),
            "exact on every kind of row",
            f"exact only where the mean is representable: {where}",
        ),
    )


def stability_pays(
    variance: pd.DataFrame, variance_time: pd.DataFrame, *, most: float, tolerance: float
) -> Judgement:
    """Two passes are `tolerance` times as accurate at every kappa, and take at most `most` times as long
    in the median cell; corrected where they are so only from some kappa on."""
    errors = variance.pivot_table(index="kappa", columns="algorithm", values="rel_error_max")
    among(errors.columns, "naive", "two_pass")
    gain = pick((errors["naive"] / errors["two_pass"]).to_frame("gain"), "gain").sort_index()
    cost = 1 / pick(variance_time, "two_pass_ratio", algorithm="naive")
    better, cheap = gain >= tolerance, cost.median() <= most
    paid = gain.index[better[::-1].cummin()[::-1]]  # from each of these kappas on, all are better
    start = f"from kappa about {number(paid[0])} on" if len(paid) else "from no kappa on"
    return Judgement(
        verdict(cheap and bool(better.all()), cheap and len(paid) > 0),
        f"two-pass takes {span(cost)} times as long as naive; the error of naive is {span(gain)} times as "
        "large",
        f"{over(variance, 'dtype', 'kappa')}; time: NumPy, {over(variance_time, 'dtype', 'rows', 'hidden')}",
        f"{number(tolerance)} times as accurate {start}; the median time is "
        f"{said(cheap, 'at most', 'more than')} {number(most)} times that of naive",
    )


def slopes_are(variance: pd.DataFrame, *, expected: dict[str, float], tolerance: float) -> Judgement:
    """The median error of each algorithm, while below 1, grows as kappa to the expected power."""
    below = variance[variance["rel_error_median"] < 1]
    parts = {name: below[below["algorithm"] == name] for name in expected}
    found = {name: slope(part["kappa"], part["rel_error_median"]) for name, part in parts.items()}
    good = all(abs(found[name] - expected[name]) <= tolerance for name in expected)
    return Judgement(
        verdict(good),
        listing(f"{name} {power(value)}" for name, value in found.items()),
        f"{over(variance, 'dtype', 'hidden', 'kappa')}; {_rows(variance)}",
        f"expected {listing(f'{name} {it:g}' for name, it in expected.items())}, within {tolerance:g}",
    )


def variance_within_bounds(variance: pd.DataFrame, *, tolerance: float) -> Judgement:
    """No row's error exceeds its bound by more than the factor `tolerance`."""
    where = f"{over(variance, 'dtype', 'algorithm', 'hidden')}; sums in {over(variance, 'accumulator')}"
    return within_bounds(variance, "bound_ratio_max", "rel_error_max", where, tolerance)


def _by_row(forms: pd.DataFrame) -> str:
    parts = []
    for _, part in forms.groupby("data", sort=False):
        values = (f"{number(row.computed)} as {FORMS[row.algorithm]}" for row in part.itertuples())
        parts.append(f"D = {part['hidden'].iloc[0]}: {listing(values)}")
    return "; ".join(parts)


def _rows(variance: pd.DataFrame) -> str:
    return "; ".join(ROWS[kind] for kind in variance["data"].unique())

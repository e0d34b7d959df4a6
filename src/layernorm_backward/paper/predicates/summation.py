"""Claims about sums over rows: table summation."""

import pandas as pd

from layernorm_backward.paper.predicates.cells import geometric_mean
from layernorm_backward.paper.predicates.forms import grows_as, stays_below, within_bounds
from layernorm_backward.paper.predicates.judgement import (
    Judgement,
    NothingMeasured,
    among,
    count,
    listing,
    number,
    over,
    pick,
    said,
    span,
    verdict,
)


def sums_within_bounds(summation: pd.DataFrame, *, tolerance: float) -> Judgement:
    """No sum's error exceeds its own first-order bound by more than the factor `tolerance`."""
    return within_bounds(summation, "bound_ratio_max", "rel_error_max", _condition(summation), tolerance)


def sums_grow_with_rows(summation: pd.DataFrame, *, expected: float, tolerance: float) -> Judgement:
    """For every selected curve the median error grows as the number of rows to the expected power."""
    pick(summation, "growth")
    curves = summation.dropna(subset=["growth"]).groupby(["scheme", "quantity", "accumulator", "dtype"])
    found = {" ".join(key): float(curve["growth"].iloc[0]) for key, curve in curves}
    return grows_as(found, _condition(summation), expected, tolerance, what="exponents")


def sums_stay_below(summation: pd.DataFrame, *, tolerance: float) -> Judgement:
    """The largest relative error of every selected cell is below the tolerance."""
    errors = pick(summation, "rel_error_max")
    return stays_below(errors, _condition(summation), tolerance, what="relative error", unit="")


def sums_are_lost(summation: pd.DataFrame, *, tolerance: float) -> Judgement:
    """The median relative error of every selected cell is above the tolerance; corrected where it is in
    some."""
    errors = pick(summation, "rel_error_median")
    return Judgement(
        verdict(errors.min() > tolerance, errors.max() > tolerance),
        f"median relative error {span(errors)}",
        _condition(summation),
        f"lost above {number(tolerance)}: {int((errors > tolerance).sum())} of {len(errors)} cells",
    )


def running_sum_stops(summation: pd.DataFrame, *, at: dict[str, float], tolerance: float) -> Judgement:
    """In each dtype a running sum of ones is correct up to the number `at`, and does not grow beyond it."""
    sums = summation.loc[pick(summation, "computed_share_median").index]
    reached = sums["computed_share_median"] * sums["rows"]
    stops = sums["dtype"].map(at)
    good = bool(((reached - sums["rows"].clip(upper=stops)).abs() <= tolerance * stops).all())
    beyond = set(sums.loc[sums["rows"] > stops, "dtype"])
    short = [f"{number(at[name])} rows in {name}" for name in at if name not in beyond]
    if good and short:
        raise NothingMeasured(f"no sum of more than {listing(short)} was measured")
    ends = {name: reached[sums["dtype"] == name].max() for name in sums["dtype"].unique()}
    return Judgement(
        verdict(good),
        f"ends at {listing(f'{number(end)} ({name})' for name, end in ends.items())}",
        _condition(summation),
        f"expected {listing(f'{number(end)} ({name})' for name, end in at.items())}",
    )


def sums_are_exact(summation: pd.DataFrame, *, tolerance: float) -> Judgement:
    """At least the share 1 - `tolerance` of the sums has no error, and none changes if the rows are reversed;
    corrected where only the latter holds."""
    exact = pick(summation, "exact_share")
    change = pick(summation, "order_change")
    return Judgement(
        verdict(exact.min() >= 1 - tolerance and change.max() == 0, bool(change.max() == 0)),
        f"share of exact sums {span(exact)}; change if the rows are reversed {number(change.max())}",
        _condition(summation),
        f"{len(exact)} cells, {len(change)} of them also summed in reverse",
    )


def pairwise_helps(summation: pd.DataFrame, *, wide: str, tolerance: float) -> Judgement:
    """At the largest number of rows that was summed by each scheme, pairwise sums are more than `tolerance`
    times as accurate as running sums, for every quantity; corrected where running sums in the dtype `wide`
    are as much more accurate than pairwise ones."""
    errors = summation.pivot_table(
        index=["quantity", "rows"], columns=["scheme", "accumulator"], values="rel_error_median"
    )
    schemes = [("running", "storage"), ("pairwise", "storage"), ("running", wide)]
    among(errors.columns, *schemes)
    most = errors[schemes].dropna().groupby("quantity").tail(1)
    if most.empty:
        raise NothingMeasured("no number of rows was summed by each scheme")
    running, pairwise, wider = (most[scheme] for scheme in schemes)
    helps = bool((running > tolerance * pairwise).all())
    enough = bool((pairwise <= tolerance * wider).all())
    own = summation[(summation["scheme"] == "pairwise") & (summation["accumulator"] == "storage")]
    found = (
        f"running {number(running[key])}, pairwise {number(pairwise[key])}, running in {wide} "
        f"{number(wider[key])} ({key[0]}, {key[1]} rows)"
        for key in most.index
    )
    return Judgement(
        verdict(helps and enough, helps),
        f"median error with sums in {listing(own['dtype'].unique())}: {'; '.join(found)}",
        _condition(summation),
        f"pairwise sums gain a factor {span(running / pairwise)}; {wide} sums gain "
        f"{said(enough, 'no more', 'more')}; {int(own['rel_error_median'].isna().sum())} of "
        f"{count(len(own), 'cell')} of pairwise sums are not finite",
    )


def kernels_sum_like(summation: pd.DataFrame, *, orders: dict[str, str], tolerance: float) -> Judgement:
    """The median error of each kernel is within the factor `tolerance` of that of its order in `orders`."""
    factors = {}
    for kernel, order in orders.items():
        ratio = _over_order(summation, kernel, order)
        factors[f"{kernel} like {order}"] = max(ratio.max(), 1 / ratio.min())
    return Judgement(
        verdict(all(factor <= tolerance for factor in factors.values())),
        f"largest factor {listing(f'{number(factor)} ({name})' for name, factor in factors.items())}",
        _condition(summation),
        f"allowed: {number(tolerance)}",
    )


def kernel_errs_no_more(summation: pd.DataFrame, *, kernel: str, order: str, tolerance: float) -> Judgement:
    """In every cell the median error of a kernel's sums is at most `tolerance` times that of an order of
    summation; corrected where it is in some."""
    ratio = _over_order(summation, kernel, order)
    good = ratio <= tolerance
    return Judgement(
        verdict(bool(good.all()), bool(good.any())),
        f"geometric mean {number(geometric_mean(ratio))}, {span(ratio)} in {count(len(ratio), 'cell')}",
        _condition(summation),
        f"{int((~good).sum())} of {len(ratio)} ratios are above {number(tolerance)}",
    )


def _over_order(summation: pd.DataFrame, kernel: str, order: str) -> pd.Series:
    """The median error of a kernel over that of an order of summation, in the cells where both are not 0."""
    keys = ["dtype", "quantity", "upstream", "rows"]
    pair = [
        summation[(summation["scheme"] == name) & (summation["rel_error_median"] > 0)].set_index(keys)
        for name in (f"kernel:{kernel}", order)
    ]
    return pick((pair[0]["rel_error_median"] / pair[1]["rel_error_median"]).to_frame("ratio"), "ratio")


def _condition(summation: pd.DataFrame) -> str:
    terms = over(summation, "scheme", "quantity", "dtype", "accumulator", "rows")
    return f"{terms}; dy {over(summation, 'upstream')}"

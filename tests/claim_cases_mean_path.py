"""What the predicates about ways to mean and variance must say of small tables."""

from collections.abc import Iterator

import pandas as pd

from claim_cases import Case, Tables, cases_of
from claim_frames import frame

COLUMNS = (
    "error_u_max residual_u_max remainder_u_max bound_ratio_median bound_ratio_max bounded_rows violations"
)
KEYS = {"algorithm": "two_pass", "quantity": "dx", "dtype": "float64", "accumulator": "storage"}
KEYS |= {"data": "gaussian", "upstream": "shifted", "hidden": 64, "kappa": 1e3}


def cell(
    *,
    error: float = 100.0,
    residual: float = 1.0,
    remainder: float = 1.0,
    ratio: float = 0.5,
    violations: int = 0,
) -> Tables:
    unbounded = (error, residual, remainder, float("nan"), float("nan"), 0, 0)
    rows = [(error, residual, remainder, ratio, ratio, 64, violations), unbounded]
    return (frame(COLUMNS, *rows, **KEYS),)


def more(*cells: Tables) -> Tables:
    return (pd.concat([table for (table,) in cells], ignore_index=True),)


def mean_paths() -> Iterator[Case]:
    lost = cell(error=float("inf"), residual=float("inf"))
    small, large = [cell(error=3.0)], [cell(error=30.0)]
    yield from cases_of("pass_errors_stay_below", 4, {}, confirmed=small, refuted=large)
    one_errs = [*large, more(small[0], large[0])]
    yield from cases_of(
        "pass_errors_reach", 10, {"kappa": {"gaussian": 1e3}}, confirmed=one_errs, refuted=small
    )
    passes = {"confirmed": [cell(), more(cell(), cell())], "refuted": [cell(violations=1)]}
    passes["refuted"].append(more(cell(), cell(violations=1), cell()))
    yield from cases_of("passes_within_bounds", 0, {}, **passes)
    loose = cell(ratio=0.01)
    yield from cases_of(
        "bounds_are_loose", 0.1, {}, confirmed=[loose], refuted=[cell(), more(loose, loose, cell())]
    )
    unexplained = [cell(remainder=5.0), more(cell(), cell(remainder=5.0))]
    yield from cases_of("eta_and_rho_explain", 4, {}, confirmed=[cell()], refuted=unexplained)
    yield from cases_of(
        "first_order_explains", 0.05, {}, confirmed=[cell()], refuted=[cell(residual=6.0), lost]
    )

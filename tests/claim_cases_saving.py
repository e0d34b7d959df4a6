"""What the predicates about saved statistics and representation must say of small tables."""

from collections.abc import Iterator

import pandas as pd

from claim_cases import Case, cases_of, wrapped
from claim_frames import frame


def saved_rows(*errors: float, saved: str = "mean_bfloat16", eta: float = 1.0) -> pd.DataFrame:
    """Errors of dx at kappa 1, 10, 100, ... in bfloat16, and the same of a mean in float64."""
    columns = "saved kappa dx_error_u_median dx_error_u_max eta_u_max eta_bound_ratio_max"
    rows = [(saved, 10.0**power, error, error, eta, eta / 2) for power, error in enumerate(errors)]
    keys = {"dtype": "bfloat16", "forward": "recentred", "backward": "recentred"}
    return frame(columns, *rows, **keys)


def other_dtype(error: float) -> pd.DataFrame:
    return pd.concat([saved_rows(1.0), saved_rows(error, saved="mean_float64")])


def rounded_rstd(*errors: float) -> pd.DataFrame:
    return pd.concat([saved_rows(*(0.5 for _ in errors)), saved_rows(*errors, saved="mean_rstd_bfloat16")])


def represented(*cells: tuple[float, float]) -> pd.DataFrame:
    """Errors of an algorithm and of rounding the row, at kappa 1, 10, 100, ... in float64."""
    rows = [(10.0**power, added, rounding) for power, (added, rounding) in enumerate(cells)]
    keys = {"algorithm": "two_pass", "dtype": "float64", "accumulator": "storage", "data": "gaussian"}
    keys |= {"upstream": "shifted", "quantity": "dx", "hidden": 64, "offset": 1.0}
    return frame("kappa error_max representation_error", *rows, **keys)


def saving() -> Iterator[Case]:
    yield from cases_of(
        "own_dtype_suffices", 4, {}, confirmed=wrapped(other_dtype, 9.0), refuted=wrapped(saved_rows, 9.0)
    )
    yield from cases_of(
        "saved_errors_stay_below",
        4,
        {},
        confirmed=wrapped(saved_rows, (1.0, 3.0)),
        refuted=wrapped(other_dtype, 9.0),
    )
    yield from cases_of(
        "saved_errors_grow",
        0.1,
        {"expected": 1.0},
        confirmed=wrapped(saved_rows, (1.0, 10.0, 100.0)),
        refuted=wrapped(saved_rows, (1.0, 1.0, 1.0), (1.0, 100.0), (1.0, 10.0, float("inf"))),
    )
    inside, outside = ([(saved_rows(1.0, eta=eta),)] for eta in (1.9, 2.1))
    yield from cases_of("offsets_within_bound", 1, {}, confirmed=inside, refuted=outside)
    wide = [(rounded_rstd(0.5 + more).assign(dtype="float32"),) for more in (6e4, 7e4)]  # 2^16 u are allowed
    yield from cases_of("rstd_costs_its_roundoff", 1, {}, confirmed=wide[:1], refuted=wide[1:])
    yield from cases_of(
        "rstd_costs_its_roundoff",
        1,
        {},
        confirmed=wrapped(rounded_rstd, 1.4),
        refuted=wrapped(rounded_rstd, 1.6, (1.4, 1.4, 1.6)),
    )


def representing() -> Iterator[Case]:
    yield from cases_of(
        "little_is_added",
        4,
        {},
        confirmed=wrapped(represented, ((4e-16, 1.0), (1e-16, 1.0))),
        refuted=wrapped(
            represented, ((4e-16, 1.0), (5e-16, 1.0)), ((4e-16, 1.0), (5e-16, 1.0), (1e-16, 1.0))
        ),
    )
    yield from cases_of(
        "rounding_grows",
        0.1,
        {"expected": 1.0},
        confirmed=wrapped(represented, ((1.0, 1e-9), (1.0, 1e-8))),
        refuted=wrapped(represented, ((1.0, 1e-9), (1.0, 1e-9))),
    )
    yield from cases_of(
        "exceeds_rounding",
        10,
        {},
        confirmed=wrapped(represented, ((1e-8, 1e-9), (1e-6, 1e-8))),
        corrected=wrapped(represented, ((1e-8, 1e-9), (1e-9, 1e-8))),
        refuted=wrapped(represented, ((1e-9, 1e-9), (1e-9, 1e-8))),
    )
    yield from cases_of(
        "errs_on_exact_rows",
        4,
        {},
        confirmed=wrapped(represented, ((1e-8, 0.0), (1e-6, 0.0))),
        corrected=wrapped(represented, ((1e-8, 0.0), (1e-16, 0.0))),
        refuted=wrapped(represented, ((1e-8, 1e-9), (1e-6, 0.0)), ((1e-16, 0.0),)),
    )

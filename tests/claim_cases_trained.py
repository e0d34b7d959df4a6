"""What the predicates about a trained encoder must say of small tables: some confirm, some do not."""

from collections.abc import Iterator

import pandas as pd

from claim_cases import Case, cases_of, stacked, wrapped
from claim_frames import frame

CELL = {"dtype": "float32", "accumulator": "storage", "upstream": "shifted", "rows": 64}
BASELINE = {"baseline": "recentred"}
ALIKE = BASELINE | {"least": 0.5}


def sites(*kappas: float) -> pd.DataFrame:
    return frame("layer kappa_max", *enumerate(kappas), dtype="float32", rows=64, offset_max=0.1)


def ways(*errors: float, bound: float = 50.0) -> pd.DataFrame:
    """two_pass errs by this in one cell after the other, recentred by 2 u."""
    rows = [("two_pass", layer, error) for layer, error in enumerate(errors)]
    rows += [("recentred", layer, 2.0) for layer in range(len(errors))]
    table = frame("algorithm layer dx_error_u_max", *rows, offset=0.0, **CELL)
    return table.assign(bound_ratio_max=table["dx_error_u_max"] / bound)


def trained() -> Iterator[Case]:
    yield from cases_of(
        "kappa_stays_below",
        1.01,
        {},
        confirmed=wrapped(sites, (1.001, 1.002)),
        refuted=wrapped(sites, (1.001, 2), (1.001, 2, 1.002), (1.001, 1.01)),
    )
    moved = ways(2.0).assign(offset=1e4, dx_error_u_max=20.0)
    yield from cases_of(
        "algorithms_err_alike",
        1.5,
        ALIKE,
        confirmed=[*wrapped(ways, (2.0, 3.0, 1.0)), *stacked(ways(2.0), moved)],
        corrected=wrapped(ways, (2.0, 2.0, 3.1), (2.0, 2.0, 0.9), (3.0, 3.0, 3.1), (1.0, 1.0, 0.9)),
        refuted=wrapped(ways, (3.1, 3.1), (float("inf"), 4.0), (0.9, 0.9)),
    )
    yield from cases_of(
        "algorithms_err_more",
        10,
        BASELINE,
        confirmed=wrapped(ways, (20.0, 400.0)),
        corrected=wrapped(ways, (19.0, 400.0)),
        refuted=wrapped(ways, (19.0, 3.0)),
    )
    yield from cases_of(
        "trained_errors_stay_below",
        4,
        {},
        confirmed=wrapped(ways, (3.9, 3.0)),
        refuted=wrapped(ways, (4.1, 3.0)),
    )
    yield from cases_of(
        "trained_errors_within_bounds",
        1,
        {},
        confirmed=wrapped(ways, (49.0, 3.0)),
        refuted=wrapped(ways, (51.0, 3.0)),
    )

"""What the predicate about spells of the machine must say of tables that confirm, or do not."""

from collections.abc import Iterator

import pandas as pd

from claim_cases import Case, cases_of
from claim_frames import frame


def slowed(*cells: tuple[float, ...], wide: float = 0.01, free: float = 0.01) -> pd.DataFrame:
    """Fractions of the roof in the bands below 1.1, from 1.1, from 1.2 and from 1.4 on, by cell; their
    intervals reach `wide` to each side, that of the first band `free`."""
    starts = (float("nan"), 0.0, 1.1, 1.2, 1.4)
    rows = [
        (hidden, band, start, value)
        for hidden, values in enumerate(cells, 1)
        for band, (start, value) in enumerate(zip(starts, (0.5, *values), strict=True))
    ]
    columns = "hidden band update_from roof_fraction"
    keys = {"kernel": "numba_fused", "direction": "backward", "dtype": "float32", "threads": 1}
    found = frame(columns, *rows, **keys, repeats=9)
    away = found["band"].map({1: free}).fillna(wide)
    ends = {"roof_fraction_low": found["roof_fraction"] - away}
    return found.assign(**ends, roof_fraction_high=found["roof_fraction"] + away)


def spells() -> Iterator[Case]:
    less, same = (0.8, 0.8, 0.6, 0.6), (0.8, 0.6, 0.8, 0.8)
    mixed, late = (0.8, 0.8, 0.6, 0.8), (0.8, 0.8, 0.8, 0.6)
    never_free = (float("nan"), 0.9, 0.9, 0.9)
    yield from cases_of(
        "core_slows_kernel_more",
        0.05,
        {"slowed": 1.2},
        confirmed=[(slowed(less, less),), (slowed(less, never_free),)],
        corrected=[
            (slowed(less, less, same),),
            (slowed(less, mixed),),
            (slowed(late),),
            (slowed(less, wide=0.2),),
            (slowed(less, free=0.2),),
        ],
        refuted=[(slowed(less, same, same),), (slowed(same),)],
        **{"not measured": [(slowed(same, wide=0.1),)]},
    )

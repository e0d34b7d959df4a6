"""What the predicate about spells of the machine must say of tables that confirm, or do not."""

from collections.abc import Iterator

import pandas as pd

from claim_cases import Case, cases_of
from claim_frames import frame


def slowed(*cells: tuple[float, float]) -> pd.DataFrame:
    """Slowdowns of kernel and roof where `update` takes 1.5 times its least; in the first band all are 1."""
    rows = [
        (hidden, band, start, *(values if band == 2 else (1.0, 1.0)), max(1.0, start))
        for hidden, values in enumerate(cells, 1)
        for band, start in ((0, float("nan")), (1, 0.0), (2, 1.5))
    ]
    columns = "hidden band update_from kernel_slowdown roof_slowdown update_slowdown"
    return frame(columns, *rows, kernel="numba_fused", direction="backward", dtype="float32", threads=1)


def spells() -> Iterator[Case]:
    more, alike = (1.4, 1.1), (1.4, 1.4)
    yield from cases_of(
        "core_slows_kernel_more",
        0.05,
        {"slowed": 1.2},
        confirmed=[(slowed(more, more),)],
        corrected=[(slowed(more, more, alike),)],
        refuted=[(slowed(more, alike, alike),), (slowed(alike),)],
    )

"""What the predicate about spells of the machine must say of tables that confirm, or do not."""

from collections.abc import Iterator

import pandas as pd

from claim_cases import Case, cases_of
from claim_frames import frame


def slowed(*cells: tuple[float, float, float]) -> pd.DataFrame:
    """Slowdowns of kernel, roof and update in the last part of each cell; in its first all are 1."""
    rows = [
        (hidden, part, *(values if part == 2 else (1.0, 1.0, 1.0)))
        for hidden, values in enumerate(cells, 1)
        for part in (0, 1, 2)
    ]
    columns = "hidden part kernel_slowdown roof_slowdown update_slowdown"
    return frame(columns, *rows, kernel="numba_fused", direction="backward", dtype="float32", threads=1)


def spells() -> Iterator[Case]:
    more, alike, quiet = (1.4, 1.1, 1.5), (1.4, 1.4, 1.5), (1.0, 1.0, 1.05)
    yield from cases_of(
        "core_slows_kernel_more",
        0.05,
        {"slowed": 1.2},
        confirmed=[(slowed(more, more),), (slowed(more, quiet),)],
        corrected=[(slowed(more, more, alike),)],
        refuted=[(slowed(more, alike, alike),), (slowed(alike),)],
    )

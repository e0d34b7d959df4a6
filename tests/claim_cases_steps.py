"""What the predicate about the way from the roof to the kernel must say of tables that confirm, or do not."""

from collections.abc import Iterator

import pandas as pd

from claim_cases import Case, cases_of
from claim_frames import frame


def passes(*added: float) -> tuple[pd.DataFrame]:
    """The pass over its last step, by cell; that step itself took longer than the one before."""
    rows = [(step, hidden, value) for hidden, it in enumerate(added) for step, value in _steps(it)]
    keys = {"direction": "backward", "dtype": "float32", "threads": 1, "working_set": "beyond_cache"}
    return (frame("step hidden added", *rows, **keys),)


def _steps(added: float) -> list[tuple[str, float]]:
    return [("partial_sums", 1.5), ("pass", added)]


def steps() -> Iterator[Case]:
    yield from cases_of(
        "accesses_bind",
        0.1,
        {},
        confirmed=[passes(1.05, 1.1), passes(0.9)],
        corrected=[passes(1.05, 1.0, 1.2)],
        refuted=[passes(1.05, 1.2, 1.2), passes(1.11)],
    )

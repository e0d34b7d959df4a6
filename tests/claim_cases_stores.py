"""What the predicates about stores must say of tables that confirm, or do not."""

from collections.abc import Iterator

import pandas as pd

from claim_cases import Case, cases_of
from claim_frames import frame


def read_next(*cells: tuple[float, bool]) -> tuple[pd.DataFrame]:
    """Ordinary over non-temporal and what is chosen, by cell; without a reader the other kind would win."""
    rows = [
        (then, size * 10**6, value, stream)
        for size, it in enumerate(cells, 1)
        for then, value, stream in _both(*it)
    ]
    keys = {"direction": "backward", "dtype": "float32", "hidden": 1024, "threads": 1, "working_set": "1"}
    return (frame("then bytes ratio stream", *rows, **keys),)


def _both(ratio: float, stream: bool) -> list[tuple[str, float, bool]]:
    return [("nothing", 1 / ratio, stream), ("read", ratio, stream)]


def placed(*cells: tuple[float, bool]) -> tuple[pd.DataFrame]:
    """Time over that at half a page, and whether it differs, by cell."""
    rows = [(threads, *cell) for threads, cell in enumerate(cells, 1)]
    keys = {"place": 64, "direction": "forward", "dtype": "float32", "hidden": 1024, "working_set": "1"}
    return (frame("threads ratio differs", *rows, **keys),)


def stores() -> Iterator[Case]:
    yield from cases_of(
        "place_costs",
        0.05,
        {},
        confirmed=[placed((1.06, True), (1.4, True))],
        corrected=[placed((1.04, True), (1.4, True)), placed((1.2, True), (1.4, False))],
        refuted=[placed((1.0, False), (1.04, True)), placed((0.8, True), (0.9, True), (1.4, True))],
    )
    yield from cases_of(
        "stores_chosen_well",
        0.05,
        {},
        confirmed=[read_next((0.6, False), (1.4, True)), read_next((1.04, False), (0.96, True))],
        corrected=[read_next((0.6, False), (1.4, True), (1.2, False))],
        refuted=[
            read_next((1.4, False), (0.6, True)),
            read_next((0.6, False), (1.4, False), (1.3, False)),
        ],
    )
    yield from cases_of(
        "ordinary_within",
        0.05,
        {},
        confirmed=[read_next((0.6, False), (1.04, True))],
        corrected=[read_next((0.6, False), (1.4, True))],
        refuted=[read_next((1.4, False), (1.5, True))],
    )

"""Rows of a table by the values of its columns, and what holds between columns."""

import pandas as pd


def select(table: pd.DataFrame, **wanted: object) -> pd.DataFrame:
    """The rows where columns have these values; there must be some."""
    for column, value in wanted.items():
        table = table[table[column] == value]
    assert len(table), wanted
    return table


def held_row_by_row(table: pd.DataFrame, ratio: str, error: str, bound: str) -> None:
    """Each row has its own bound: no ratio is below the worst error over the worst bound, some are above."""
    cells = table.dropna(subset=[ratio])
    worst = cells[error] / cells[bound]
    assert (cells[ratio] <= 1).all()
    assert (cells[ratio] >= worst * (1 - 1e-12)).all()
    assert (cells[ratio] > worst * (1 + 1e-3)).any()

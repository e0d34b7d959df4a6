"""Selects rows of a table by the values of columns."""

from collections.abc import Sequence
from typing import Any

import pandas as pd


def select(table: pd.DataFrame, where: dict[str, Any]) -> pd.DataFrame:
    """The rows whose columns have the wanted value, or one of a list of wanted values.

    Raises ValueError if a column does not exist, or if text is given for a column of numbers. Numbers are
    compared as float64. `max` means the largest number among the rows that the preceding columns select, so
    `threads: max` means all threads on any machine. `any` means every value that is not empty.
    """
    for name, wanted in where.items():
        if wanted == "any":
            table = table[column_of(table, name).notna()]
            continue
        choices = wanted if isinstance(wanted, list | tuple) else [wanted]
        table = table[matches(column_of(table, name), name, choices)]
    return table


def column_of(table: pd.DataFrame, name: str) -> pd.Series:
    """A column by its name; ValueError lists the existing columns."""
    if name not in table.columns:
        raise ValueError(f"no column {name}; there are: {', '.join(table.columns)}")
    return table[name]


def matches(column: pd.Series, name: str, choices: Sequence[Any]) -> pd.Series:
    """Which values of a column are among `choices`, as in `select`; one bool per row."""
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return column.isin(choices)
    try:
        return column.astype(float).isin([column.max() if it == "max" else float(it) for it in choices])
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {choices}; allowed: numbers, max or any") from None

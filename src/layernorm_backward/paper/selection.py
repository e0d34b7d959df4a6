"""Rows of a table by the values of its columns."""

from typing import Any

import pandas as pd


def select(table: pd.DataFrame, where: dict[str, Any]) -> pd.DataFrame:
    """The rows whose columns have the wanted value, or one of a list of wanted values.

    Raises ValueError where a column does not exist. Numbers are compared as float64, so that a YAML
    `1e8` (a string there) and `100000000` select the same rows.
    """
    unknown = [column for column in where if column not in table.columns]
    if unknown:
        raise ValueError(f"no column {', '.join(unknown)}; there are: {', '.join(table.columns)}")
    for column, wanted in where.items():
        choices = wanted if isinstance(wanted, list | tuple) else [wanted]
        table = table[_matches(table[column], choices)]
    return table


def _matches(column: pd.Series, choices: list[Any] | tuple[Any, ...]) -> pd.Series:
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        return column.astype(float).isin([float(choice) for choice in choices])
    return column.isin(choices)

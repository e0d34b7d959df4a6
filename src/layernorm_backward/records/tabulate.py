"""Rows of results as a table with all columns of its schema."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from layernorm_backward.records.schemas import SCHEMAS, Kind

DTYPES: dict[Kind, str] = {"str": "str", "int": "Int64", "float": "float64", "bool": "boolean"}
_EMPTY = {"str": "", "int": pd.NA, "float": np.nan, "bool": pd.NA}


def table(rows: Iterable[dict[str, Any]], stem: str) -> pd.DataFrame:
    """Rows as the table of `stem`: columns that a row leaves out are empty, a missing reason is "".

    Raises ValueError if no schema has this name, a row holds a column that the schema lacks, or a column
    holds another kind.
    """
    if stem not in SCHEMAS:
        raise ValueError(f"no table is called {stem!r}; allowed: {', '.join(SCHEMAS)}")
    columns = SCHEMAS[stem].columns
    filled = [_filled(row, stem, columns) for row in rows]
    found = pd.DataFrame(filled, columns=list(columns))
    for name, kind in columns.items():
        try:
            found[name] = found[name].astype(DTYPES[kind])
        except (TypeError, ValueError) as error:
            raise ValueError(f"table {stem}: column {name!r} must hold {kind}: {error}") from error
    return found


def _filled(row: dict[str, Any], stem: str, columns: dict[str, Kind]) -> dict[str, Any]:
    unknown = [name for name in row if name not in columns]
    if unknown:
        raise ValueError(f"table {stem}: no column {unknown[0]!r}; allowed: {', '.join(columns)}")
    return {name: row.get(name, _EMPTY[kind]) for name, kind in columns.items()}

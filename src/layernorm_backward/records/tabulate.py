"""Rows of results as a table with all columns of its schema."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from layernorm_backward.records.schemas import SCHEMAS

_KINDS = {"str": "str", "int": "Int64", "float": "float64", "bool": "boolean"}
_EMPTY = {"str": "", "int": pd.NA, "float": np.nan, "bool": pd.NA}


def table(rows: Iterable[dict[str, Any]], stem: str) -> pd.DataFrame:
    """Rows as the table of `stem`: what a row leaves out is empty, its reason is "" where it has none."""
    columns = SCHEMAS[stem].columns
    filled = [{name: row.get(name, _EMPTY[kind]) for name, kind in columns.items()} for row in rows]
    kinds = {name: _KINDS[kind] for name, kind in columns.items()}
    return pd.DataFrame(filled, columns=list(columns)).astype(kinds)

"""The values that the rows of a claim are selected by: one that nothing has is misspelt, and selects nothing.

A value need not be in this run's table: a smaller study, another machine or an edited file may leave it out.
It is then in a config file of the table, or in the newest archived one.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from layernorm_backward.paper.selection import matches
from layernorm_backward.records import archive, tables
from layernorm_backward.storage import yamlfile

_CONFIG = Path("config")
_STUDIES = ("paper", "full")
_NO_VALUES = ("any", "max", "")  # what `select` takes for something else, and what a cell without text holds


def unknown(frame: pd.DataFrame, stem: str, where: dict[str, Any]) -> str:
    """The first value that no row, config file or archived table has, beside those of the rows; "" for none.

    `frame` is this run's table `stem`, `where` maps a column to a value or a list of values.
    """
    for column, wanted in where.items():
        for value in wanted if isinstance(wanted, list) else [wanted]:
            if isinstance(value, bool) or value in _NO_VALUES or _is_there(frame, stem, column, value):
                continue
            there = ", ".join(map(str, frame[column].dropna().unique()))
            return f"{column}: no row, config file or archived table has {value!r}; there are: {there}"
    return ""


def lost(frame: pd.DataFrame, stem: str, where: dict[str, Any]) -> bool:
    """Whether some list in `where` names a value that the archived table has, and this run's `frame` has not.

    What is left of such a list is less than the sentence around the number speaks of.
    """
    missing = [
        (column, value)
        for column, wanted in where.items()
        if isinstance(wanted, list)
        for value in wanted
        if not _holds(frame, column, value)
    ]
    newest = archive.latest(stem, archive.WHOLE) if missing else None
    return newest is not None and any(_holds(tables.read(newest), *pair) for pair in missing)


def _is_there(frame: pd.DataFrame, stem: str, column: str, value: Any) -> bool:
    if _holds(frame, column, value) or value in _configured(stem):
        return True
    newest = filter(None, (archive.latest(stem, study) for study in _STUDIES))
    return any(_holds(tables.read(table), column, value) for table in newest)


def _holds(frame: pd.DataFrame, column: str, value: Any) -> bool:
    try:
        return column in frame and bool(matches(frame[column], column, [value]).any())
    except ValueError:  # text where numbers are
        return False


def _configured(stem: str) -> list[Any]:
    paths = [_CONFIG / study / f"{stem}.yaml" for study in _STUDIES]
    return [leaf for path in paths if path.exists() for leaf in _leaves(yamlfile.load(path))]


def _leaves(content: Any) -> Iterator[Any]:
    """Every key and value in the content of a config file."""
    if isinstance(content, dict):
        yield from content
        content = content.values()
    elif not isinstance(content, list):
        yield content
        return
    for part in content:
        yield from _leaves(part)

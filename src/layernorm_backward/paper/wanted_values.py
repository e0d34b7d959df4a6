"""Finds misspelt values among those by which claims and numbers select rows.

A value need not be in this run's table: a smaller study, another machine or an edited file may leave it out.
Then it must be in a config file of the table or in its newest archived version; otherwise it is misspelt.
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
_NO_VALUES = ("any", "max", "")  # keywords of `select`, and an empty cell of text


def unknown(frame: pd.DataFrame, stem: str, where: dict[str, Any]) -> str:
    """A message on the first value that no row, config file or archived table has; "" if there is none.

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
    """Whether a list in `where` has a value that is in the archived table but not in this run's `frame`.

    The remaining rows then cover less than the sentence around the number is about.
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
    except ValueError:  # text for a column of numbers
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

"""The numbers in the text of the paper: paper/numbers.yaml says where each one is in the tables.

    name: {table: variance, where: {algorithm: naive, offset: 1e8}, column: rel_error_max,
           reduce: only, per: other_name, scale: 1, format: power}

`study: full` takes the table from the newest run of that study in the archive, not from this run.
`where` selects the rows whose columns have the value (or one of a list of values); `reduce` makes one value
of those rows; `per` divides by another number, `scale` multiplies. Rows without a measurement do not count.

If no row is selected the build stops with an error, with three exceptions. A `count` is 0 if rows meet all
conditions but the last. The text is "n/a" if the table is partial (see `partial`): if it has fewer cases
than the sentence is about, or none for a name in a list. It is also "n/a" if this machine cannot time any of
the rows, because its memory is too small for arrays beyond its cache, or a peer is not installed.
"""

import json
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from layernorm_backward.paper.formats import FORMATS
from layernorm_backward.paper.partial import SUMMARIES, Excuses
from layernorm_backward.paper.selection import column_of, select
from layernorm_backward.paper.wanted_values import lost, unknown
from layernorm_backward.records import archive, tables
from layernorm_backward.records.schemas import SCHEMAS
from layernorm_backward.storage import yamlfile
from layernorm_backward.storage.files import whole

_REDUCE = {
    "only": lambda column: column.iloc[0],
    "min": lambda column: column.min(),
    "max": lambda column: column.max(),
    "median": lambda column: column.median(),
    "sum": lambda column: column.sum(),
    "count": lambda column: len(column),
    "distinct": lambda column: column.nunique(),
}


class NumberError(ValueError):
    """A number that cannot be computed; the message names the number, its table and the selection."""


class NoRow(NumberError):
    """A selection without a measured row, or with more than one for `only`."""


class Number(BaseModel):
    """Where a number of the text is found: table, rows, column; and how it is printed."""

    model_config = ConfigDict(extra="forbid")
    table: str
    study: Literal["", "full"] = ""
    where: dict[str, Any] = {}
    column: str
    reduce: Literal["only", "min", "max", "median", "sum", "count", "distinct"] = "only"
    per: str | None = None
    scale: float = 1.0
    format: str = "three"


def load(path: Path) -> dict[str, Number]:
    """The entries of numbers.yaml; ValueError names the file and the faulty key or line."""
    content = yamlfile.load(path)
    if not isinstance(content, dict):
        raise NumberError(f"{path}: must hold numbers by name, holds {type(content).__name__}")
    try:
        entries = TypeAdapter(dict[str, Number]).validate_python(content)
    except ValidationError as error:
        raise NumberError(yamlfile.faults(path, error, Number.model_fields)) from None
    for name, entry in entries.items():
        if entry.table not in SCHEMAS:
            raise NumberError(
                f"{path}: {name}: table: unknown {entry.table!r}; allowed: {', '.join(SCHEMAS)}"
            )
        columns = SCHEMAS[entry.table].columns
        if missing := [column for column in (entry.column, *entry.where) if column not in columns]:
            raise NumberError(
                f"{path}: {name}: {entry.table}: no column {missing[0]!r}; allowed: {', '.join(columns)}"
            )
        if entry.format not in FORMATS:
            raise NumberError(
                f"{path}: {name}: unknown format {entry.format!r}; allowed: {', '.join(FORMATS)}"
            )
        if entry.per is not None and entry.per not in entries:
            raise NumberError(f"{path}: {name}: per: there is no number {entry.per!r}")
        if entry.per is not None and entries[entry.per].per is not None:
            raise NumberError(
                f"{path}: {name}: per: {entry.per} is itself a quotient; allowed: a number that is not"
            )
    return entries


def write(numbers_yaml: Path, tables_dir: Path, out: Path) -> None:
    """Evaluate every entry over the tables in a folder; writes {name: {text, value, table, cells}} as JSON.

    `cells` is the number of measured rows from which the value was computed.
    """
    entries = load(numbers_yaml)
    frames = {
        source: tables.read(_path(*source, tables_dir))
        for source in {(entry.table, entry.study) for entry in entries.values()}
    }
    excuses, values, cells, faults = Excuses(tables_dir), {}, {}, []
    for name, entry in entries.items():
        try:
            frame = frames[entry.table, entry.study]
            _require_known(entry, frame, excuses)
            values[name], cells[name] = _value_or_none(name, entry, frame, excuses)
        except NumberError as fault:
            faults.append(f"{numbers_yaml}: {name}: {fault}")
    if faults:
        raise NumberError("\n".join(faults))
    for name, entry in entries.items():
        if entry.per is not None and values[entry.per] is None and values[name] is not None:
            excuses.reason(name, [entries[entry.per].table])
    excuses.warn("number", "n/a")
    try:
        result = {name: _record(it, values, name) | {"cells": cells[name]} for name, it in entries.items()}
    except NumberError as fault:
        raise NumberError(f"{numbers_yaml}: {fault}") from None
    with whole(out) as temporary:
        temporary.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _require_known(entry: Number, frame: pd.DataFrame, excuses: Excuses) -> None:
    """NumberError for a value in a list that no table or config file has: it would go unnoticed."""
    lists = {name: wanted for name, wanted in entry.where.items() if isinstance(wanted, list)}
    edited = not entry.study and excuses.edited((entry.table,))
    if excuses.smoke or edited or entry.table in SUMMARIES:  # no claim need have a given verdict
        return
    if said := unknown(frame, entry.table, lists):
        raise NumberError(f"{entry.table}: where.{said}")


def _beyond_machine(frame: pd.DataFrame, entry: Number) -> bool:
    """Whether a table of times has the selected rows, but with other residency of the arrays or without
    times."""
    if SCHEMAS[entry.table].repeats is not None:
        return False
    anywhere = {name: it for name, it in entry.where.items() if name not in ("residency", "reason")}
    measured = column_of(select(frame, entry.where), entry.column).notna()
    return not measured.any() and len(select(frame, anywhere)) > 0


def _path(stem: str, study: str, tables_dir: Path) -> Path:
    if not study:
        return tables_dir / f"{stem}.csv"
    found = archive.latest(stem, study)
    if found is None:
        raise NumberError(f"{stem}: the archive has no such table of the study {study}")
    return found


def _record(entry: Number, values: dict[str, Any], name: str) -> dict[str, Any]:
    value = values[name]
    try:
        if entry.per is not None and value is not None:
            base = values[entry.per]
            value = None if base is None else value / base
        text = "n/a" if value is None else FORMATS[entry.format](value)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise NumberError(f"{name}: {value!r} per {entry.per}, format {entry.format}: {error}") from None
    return {"text": text, "value": value, "table": entry.table}


def _may_lack_names(entry: Number, excuses: Excuses) -> bool:
    """Whether an edited config file may explain that a name has no rows."""
    own = not entry.study and entry.table not in SUMMARIES
    return own and excuses.allowed and not excuses.smoke and bool(excuses.edited((entry.table,)))


def _value_or_none(name: str, entry: Number, frame: pd.DataFrame, excuses: Excuses) -> tuple[Any, int]:
    """The value and its number of rows; None and 0 if the machine or a partial table excuses it."""
    if _may_lack_names(entry, excuses) and lost(frame, entry.table, entry.where):
        excuses.reason(name, (entry.table,))
        return None, 0
    try:
        return _value(entry, frame)
    except NoRow as missing:
        if _beyond_machine(frame, entry) or excuses.reason(name, () if entry.study else (entry.table,)):
            return None, 0
        source = "the archive" if entry.study else excuses.files([entry.table])
        raise NumberError(f"{missing}; measure such rows ({source}), or change the entry") from None


def _but_for_the_last(frame: pd.DataFrame, where: dict[str, Any]) -> bool:
    """Whether rows meet all conditions but the last, of two or more conditions."""
    return len(where) > 1 and len(select(frame, dict(list(where.items())[:-1]))) > 0


def _value(entry: Number, frame: pd.DataFrame) -> tuple[Any, int]:
    try:
        rows = select(frame, entry.where)
        column = column_of(rows, entry.column).dropna()
    except ValueError as error:
        raise NumberError(f"{entry.table}: {error}") from None
    if column.empty and entry.reduce == "count" and _but_for_the_last(frame, entry.where):
        return 0.0, 0
    if column.empty or (entry.reduce == "only" and len(column) != 1):
        raise NoRow(
            f"{entry.table}.{entry.column} where {entry.where}: {len(column)} of {len(rows)} selected "
            "rows hold a measurement; 'only' needs exactly one, every other reduction at least one"
        )
    try:
        value = _REDUCE[entry.reduce](column)
    except TypeError as error:
        raise NumberError(f"{entry.table}.{entry.column}: reduce: {entry.reduce}: {error}") from None
    return value if isinstance(value, str) else float(value) * entry.scale, len(column)

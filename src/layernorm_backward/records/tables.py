"""Tables: a CSV with the columns of its schema, and beside it its record (`<stem>.meta.json`)."""

import csv
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from layernorm_backward.records.schemas import SCHEMAS, Kind, Schema
from layernorm_backward.records.tabulate import DTYPES
from layernorm_backward.storage import jsonfile
from layernorm_backward.storage.files import whole

_TRUTH = {"True": True, "False": False, "true": True, "false": False, "": pd.NA}
_FITS: dict[Kind, Callable[[pd.Series], bool]] = {
    "str": lambda column: pd.api.types.is_string_dtype(column) or column.map(type).eq(str).all(),
    "int": pd.api.types.is_integer_dtype,
    "float": pd.api.types.is_float_dtype,
    "bool": pd.api.types.is_bool_dtype,
}


class TableError(ValueError):
    """A table that does not match its schema; the message names file, column and row."""


def write(
    table: pd.DataFrame, path: Path, meta: dict[str, Any] | None = None, *, stem: str | None = None
) -> None:
    """Check against the schema of `stem` (default: the path's), write CSV and record, each atomically."""
    table = _checked(table, _schema(path, stem), path)
    write_samples(table, path)
    record = dict(meta or {}) | {"table": path.name, "rows": len(table), "sha256": sha256(path)}
    jsonfile.save(meta_path(path), record)


def write_samples(samples: pd.DataFrame, path: Path) -> None:
    """Write a CSV without a schema (every repetition of a timing) atomically."""
    with whole(path) as temporary:
        samples.to_csv(temporary, index=False, lineterminator="\n")


def samples_path(path: Path) -> Path:
    """The path of a table's samples: in `samples` beside its folder if that is `tables`, else inside it."""
    folder = path.absolute().parent
    return (folder.parent if folder.name == "tables" else folder) / "samples" / path.name


def require_name(path: Path, stem: str) -> None:
    """Raise TableError if a table of this stem could not be written to `path`, before it is measured."""
    if path.name != f"{stem}.csv":
        raise TableError(f"{path}: the table must be called as its schema is: {path.with_name(stem)}.csv")
    require_folder(path)


def require_folder(path: Path) -> None:
    """Create the folder of `path`; raise TableError if it is not writable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise TableError(f"{path}: its folder cannot be written to")


def read(path: Path, *, verify: bool = True, stem: str | None = None) -> pd.DataFrame:
    """Read a table, its columns in the types of the schema of `stem` (default: the path's).

    Raises TableError if the file is missing or was truncated or edited after it was written (its hash is in
    the record; `verify=False` skips this), and if a column is missing, unknown or of another type. Columns
    that an archived table of older code lacks, and that may be empty, are empty.
    """
    schema = _schema(path, stem)
    if not path.exists():
        remedy = f"; make it with: {_command(path)}" if _command(path) else ""
        raise TableError(f"{path}: there is no such table{remedy}")
    if verify:
        _verify(path)
    raw = _cells(path)
    if _published(path):
        raw = _with_later_columns(raw, schema)
    _check_columns(raw, schema, path)
    typed = {name: _typed(raw[name], kind, path) for name, kind in schema.columns.items()}
    return _checked(pd.DataFrame(typed), schema, path)


def columns(path: Path) -> list[str]:
    """The column names in a table's header; those of an archived table may be of older code."""
    return _cells(path).columns.tolist()


def read_meta(path: Path) -> dict[str, Any]:
    """The record of the table at `path`: machine, versions, date, code hash, config."""
    meta = meta_path(path)
    if not meta.exists():
        raise TableError(f"{path}: {meta.name} is missing beside it{_again(path)}")
    try:
        record = json.loads(meta.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TableError(f"{meta}: not valid JSON ({error}){_again(path)}") from None
    if not isinstance(record, dict) or "sha256" not in record:
        raise TableError(f"{meta}: holds no sha256 of its table{_again(path)}")
    return record


def meta_path(path: Path) -> Path:
    return path.with_suffix(".meta.json")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _schema(path: Path, stem: str | None) -> Schema:
    name = stem or path.stem
    if name not in SCHEMAS:
        raise TableError(f"{path}: no table is called {name!r}; allowed: {', '.join(SCHEMAS)}")
    return SCHEMAS[name]


def _verify(path: Path) -> None:
    if read_meta(path)["sha256"] != sha256(path):
        raise TableError(
            f"{path}: the table was cut or edited after it was measured (its sha256 differs from "
            f"{meta_path(path).name}){_again(path)}"
        )


def _again(path: Path) -> str:
    """How to get a valid table: the workflow makes only missing ones, so it must be removed first."""
    if path.parts[-4:-2] == ("results", "archive"):
        return f"; take the published one back: git checkout -- {path.parent}"
    command = _command(path)
    return f"; measure it again: rm {path} && {command}" if command else "; measure it again"


def _command(path: Path) -> str:
    """The command that makes a table of a study; "" if the table belongs to no study."""
    results, study, folder, name = ("", "", "", "", *path.parts)[-4:]
    if (results, folder) != ("results", "tables") or not Path("config", study).is_dir():
        return ""
    return f"snakemake {results}/{study}/{folder}/{name} --config study={study}"


def _cells(path: Path) -> pd.DataFrame:
    """The CSV's cells as text; TableError for an empty file, and a line with too few or too many cells."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file, strict=True)
        try:
            lines = list(rows)
        except (ValueError, csv.Error) as error:
            raise TableError(f"{path}: line {rows.line_num}: not a table in UTF-8 CSV: {error}") from None
    if not lines:
        raise TableError(f"{path}: is empty; allowed: a header, then one line for each row")
    header, *lines = lines
    for number, line in enumerate(lines, start=2):
        if len(line) != len(header):
            raise TableError(f"{path}: line {number} has {len(line)} cells, its header {len(header)}")
    return pd.DataFrame(lines, columns=header, dtype=str)


def _published(path: Path) -> bool:
    """Whether a table lies in the archive, or was taken from it."""
    if path.parts[-4:-2] == ("results", "archive"):
        return True
    return meta_path(path).exists() and "archived" in read_meta(path)


def _with_later_columns(table: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """The cells of a table, with empty ones for str and float columns that it lacks."""
    later = [name for name, kind in schema.values.items() if kind in ("str", "float")]
    return table.assign(**{name: "" for name in later if name not in table})


def _check_columns(table: pd.DataFrame, schema: Schema, path: Path) -> None:
    missing = [name for name in schema.columns if name not in table.columns]
    unknown = [str(name) for name in table.columns if name not in schema.columns]
    if missing or unknown or len(table.columns) != len(schema.columns):
        raise TableError(
            f"{path}: missing columns: {missing or 'none'}, unknown columns: {unknown or 'none'}; "
            f"allowed: {', '.join(schema.columns)}"
        )


def _typed(column: pd.Series, kind: Kind, path: Path) -> pd.Series:
    cells = column
    try:
        if kind == "bool":
            cells = cells.map(lambda text: _TRUTH[text])
        elif kind != "str":
            cells = pd.to_numeric(cells.where(cells != ""), errors="raise")
        return cells.astype(DTYPES[kind])
    except (ValueError, TypeError, KeyError) as error:
        raise TableError(f"{path}: column {column.name!r} must hold {kind}: {error}") from error


def _checked(table: pd.DataFrame, schema: Schema, path: Path) -> pd.DataFrame:
    _check_columns(table, schema, path)
    table = table[list(schema.columns)].reset_index(drop=True)
    for name, kind in schema.columns.items():
        _check_kind(table, name, kind, path)
    _check_keys(table, schema, path)
    return table


def _check_kind(table: pd.DataFrame, name: str, kind: Kind, path: Path) -> None:
    column = table[name]
    if len(table) and not _FITS[kind](column):
        raise TableError(f"{path}: column {name!r} must hold {kind}, holds {column.dtype}")
    unmeasured = table["reason"] != "" if "reason" in table else False
    empty = column.isna() & ~pd.Series(unmeasured, index=table.index)
    if kind != "float" and empty.any():
        raise TableError(f"{path}: column {name!r}, row {empty.idxmax()}: empty, and no reason is given")


def _check_keys(table: pd.DataFrame, schema: Schema, path: Path) -> None:
    keys = table[list(schema.keys)]
    empty = keys.isna() | (keys == "")
    if empty.any(axis=None):
        row = int(empty.any(axis=1).idxmax())
        raise TableError(f"{path}: row {row} has an empty key; keys are {', '.join(schema.keys)}")
    if keys.duplicated().any():
        row = int(keys.duplicated().idxmax())
        raise TableError(f"{path}: row {row} repeats the key {keys.iloc[row].to_dict()}")

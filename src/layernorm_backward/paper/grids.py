"""Tables of the paper from tables of the run: a listing of rows, or a pivot of one value."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from layernorm_backward.paper.formats import FORMATS
from layernorm_backward.paper.markdown_table import markdown_table
from layernorm_backward.paper.selection import select
from layernorm_backward.records import tables

NOT_MEASURED = "\N{EN DASH}"


def listing(
    tables_dir: Path, stem: str, columns: Mapping[str, tuple[str, str]], where: dict[str, Any], **layout: Any
) -> str:
    """The selected rows; `columns` maps a column to its heading and its format.

    `layout` is passed to markdown_table: label, caption, widths, small.
    """
    frame = select(tables.read(tables_dir / f"{stem}.csv"), where)
    rows = [
        {name: _text(row[name], form) for name, (_, form) in columns.items()} for _, row in frame.iterrows()
    ]
    heads = {name: heading for name, (heading, _) in columns.items()}
    align = "".join("l" if form in ("text", "code") else "r" for _, form in columns.values())
    return markdown_table(rows, heads, align=align, **layout)


def pivot(
    tables_dir: Path,
    stem: str,
    rows: str,
    columns: str,
    value: str,
    where: dict[str, Any],
    *,
    format: str = "three",
    formats: Mapping[str, str] = MappingProxyType({}),
    reduce: str = "max",
    head: str = "",
    **layout: Any,
) -> str:
    """One line per value of `rows`, one column per value of `columns`, both in the order of the table.

    A cell is `value` reduced by `reduce` (a pandas reduction) over the rows that `where` selects. `formats`
    gives the format of columns for which it is not `format`.
    """
    frame = select(tables.read(tables_dir / f"{stem}.csv"), where)
    cells = frame.groupby([rows, columns], sort=False)[value].agg(reduce)
    names = frame[columns].unique()
    heads = {str(name): _name(name) for name in names}
    lines = [
        {"": _name(line)}
        | {str(name): _text(cells.get((line, name)), formats.get(str(name), format)) for name in names}
        for line in frame[rows].unique()
    ]
    return markdown_table(lines, {"": head or rows} | heads, align="l" + "r" * len(heads), **layout)


def _text(value: Any, format: str) -> str:
    return NOT_MEASURED if value is None or pd.isna(value) or value == "" else FORMATS[format](value)


def _name(key: Any) -> str:
    if isinstance(key, str):
        return FORMATS["code"](key)
    value = float(key)
    return FORMATS["power0"](value) if value >= 1e5 or 0 < abs(value) < 0.01 else f"{value:g}"

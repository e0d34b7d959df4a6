"""Tables of the paper, made from the tables of the run: a listing of rows, or a pivot of one value."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from layernorm_backward import tables
from layernorm_backward.paper.formats import FORMATS
from layernorm_backward.paper.selection import select

NOT_MEASURED = "\N{EN DASH}"


class Grids:
    """Markdown pipe tables over the tables in one folder; the methods are called from the template."""

    def __init__(self, tables_dir: Path) -> None:
        self._dir = tables_dir

    def pivot(
        self,
        stem: str,
        rows: str,
        columns: str,
        value: str,
        where: dict[str, Any] | None = None,
        format: str = "three",
        reduce: str = "max",
        head: str | None = None,
    ) -> str:
        """One line a value of `rows`, one column a value of `columns`, in the order of the table."""
        frame = select(self._read(stem), where or {})
        reduced = frame.groupby([rows, columns], sort=False)[value].agg(reduce)
        lines, heads = list(frame[rows].unique()), list(frame[columns].unique())
        cells = [[_text(reduced.get((line, name)), format) for name in heads] for line in lines]
        body = [[_name(line), *row] for line, row in zip(lines, cells, strict=True)]
        return pipe_table([head or rows, *map(_name, heads)], body, "l" + "r" * len(heads))

    def listing(
        self, stem: str, columns: dict[str, tuple[str, str]], where: dict[str, Any] | None = None
    ) -> str:
        """Selected rows as they stand; `columns` maps a column to its heading and format."""
        frame = select(self._read(stem), where or {})
        formats = {name: form for name, (_, form) in columns.items()}
        body = [[_text(row[name], form) for name, form in formats.items()] for _, row in frame.iterrows()]
        align = "".join("l" if form in ("text", "code") else "r" for form in formats.values())
        return pipe_table([heading for heading, _ in columns.values()], body, align)

    def _read(self, stem: str) -> pd.DataFrame:
        return tables.read(self._dir / f"{stem}.csv")


def pipe_table(heads: Sequence[str], body: Iterable[Sequence[str]], align: str) -> str:
    """A Markdown pipe table; `align` has one letter a column, l or r."""
    rule = ["---:" if letter == "r" else ":---" for letter in align]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, rule, *body))


def _text(value: Any, format: str) -> str:
    if value is None or pd.isna(value) or value == "":
        return NOT_MEASURED
    formatter: Callable[[Any], str] = FORMATS[format]
    return formatter(value)


def _name(key: Any) -> str:
    if isinstance(key, str):
        return key.replace("_", r"\_")
    return FORMATS["power0"](float(key)) if float(key) >= 1e5 or 0 < abs(float(key)) < 0.01 else f"{key:g}"

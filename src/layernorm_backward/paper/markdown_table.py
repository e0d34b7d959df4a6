"""A Pandoc pipe table with a caption, a label and columns that wrap."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def markdown_table(
    rows: Iterable[Mapping[str, Any]],
    columns: Mapping[str, str],
    *,
    label: str = "",
    caption: str = "",
    align: str = "",
    widths: Sequence[float] = (),
    small: bool = False,
) -> str:
    """The rows as a table; `columns` maps the key of a row to the heading of its column.

    `align` has one of l, r, c per column (default: all l). `widths` are shares of the page width, for columns
    that wrap; without them a column is as wide as its longest cell. `small` sets small type.
    Without a label no caption is written: it then follows in the text, with its label and classes.
    Raises ValueError if align or widths do not fit the columns, or a row lacks a key.
    """
    align = align or "l" * len(columns)
    if len(align) != len(columns) or set(align) - set("lrc"):
        raise ValueError(
            f"table {label}: align {align!r} needs one of l, r, c for each column of {len(columns)}"
        )
    if widths and len(widths) != len(columns):
        raise ValueError(f"table {label}: {len(widths)} widths for {len(columns)} columns")
    lines = [_line(columns.values()), _rule(align, widths)]
    for row in rows:
        missing = [key for key in columns if key not in row]
        if missing:
            raise ValueError(f"table {label}: a row has no {missing}; it has: {', '.join(map(str, row))}")
        lines.append(_line(row[key] for key in columns))
    if not label:
        return "\n".join(["", *lines, ""])
    attributes = f"{{#tbl:{label}{' .small' * small}{' .wrap' * bool(widths)}}}"
    return "\n".join(["", *lines, "", f": {caption} {attributes}", ""])


def _line(cells: Iterable[Any]) -> str:
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(value: Any) -> str:
    """A cell as one line of Markdown: bars are escaped, None and NaN are empty."""
    text = "" if value is None or value != value else str(value)
    return " ".join(text.split()).replace("|", r"\|")


def _rule(align: str, widths: Sequence[float]) -> str:
    shares = [share / sum(widths) for share in widths] if widths else [0.0] * len(align)
    rules = []
    for side, share in zip(align, shares, strict=True):
        dashes = "-" * max(3, round(200 * share))
        rules.append({"l": f":{dashes}-", "r": f"-{dashes}:", "c": f":{dashes}:"}[side])
    return f"|{'|'.join(rules)}|"

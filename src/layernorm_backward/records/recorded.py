"""Reads and checks the record beside a table, which `record` and `tables.write` wrote."""

from pathlib import Path
from typing import Any

from layernorm_backward.records import tables

_KINDS = {"text": str, "a number": int | float, "an object": dict}
REQUIRED = {
    "study": "text",
    "config": "an object",
    "code_hash": "text",
    "commit": "text",
    "date": "text",
    "duration_s": "a number",
    "machine": "an object",
    "rows": "a number",
    "sha256": "text",
}


def read_record(table: Path) -> dict[str, Any]:
    """The record of a table; TableError names file and key where one is missing or of the wrong type."""
    record = tables.read_meta(table)
    for key, kind in REQUIRED.items():
        if not isinstance(record.get(key), _KINDS[kind]):
            held = f"holds {record[key]!r}" if key in record else "is missing"
            raise tables.TableError(
                f"{tables.meta_path(table)}: {key} must be {kind}, {held}; measure the table again"
            )
    return record

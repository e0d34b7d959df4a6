"""What a campaign has measured, cell by cell, each in a file of its own: nothing is lost by a later failure.

A cell's file is named by all that its numbers depend on: the table, the cell, its kernels, the configuration
and the code. So a campaign that goes on takes just what is still right.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from layernorm_backward.files import whole


class Entry(NamedTuple):
    """The rows of one cell, and its samples."""

    rows: list[dict[str, Any]]
    samples: list[dict[str, Any]]


class Ledger:
    """The cells of one table below a folder."""

    def __init__(self, folder: Path, stem: str, config: Mapping[str, Any], code_hash: str) -> None:
        self._folder = folder / stem
        self._common = json.dumps([stem, config, code_hash], sort_keys=True)

    def find(self, cell: tuple, names: list[str]) -> Entry | None:
        """What was measured of a cell, if it was."""
        path = self._path(cell, names)
        return Entry(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None

    def keep(self, cell: tuple, names: list[str], entry: Entry) -> None:
        """Write down a cell."""
        with whole(self._path(cell, names)) as temporary:
            temporary.write_text(json.dumps(entry._asdict(), default=_plain), encoding="utf-8")

    def clear(self) -> None:
        """Forget all cells of the table."""
        for path in self._folder.glob("*.json"):
            path.unlink()

    def _path(self, cell: tuple, names: list[str]) -> Path:
        text = json.dumps([self._common, cell, names])
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    return value.item()

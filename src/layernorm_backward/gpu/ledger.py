"""What a campaign has measured, cell by cell, each in a file of its own: nothing is lost by a later failure.

A cell's file is named by all that its numbers depend on: the table, the cell, its kernels and the versions of
their packages, the configuration, the code, the GPU and its driver. So a campaign that goes on takes just
what is still right.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from layernorm_backward import jsonfile
from layernorm_backward.files import whole
from layernorm_backward.gpu.reasons import Passing

FOLDER = "ledger"  # of a campaign, beside its tables
_MARK = ".begun"


class Entry(NamedTuple):
    """The rows of one cell, its samples, and whether it failed as a whole, which is then its rows' reason."""

    rows: list[dict[str, Any]]
    samples: list[dict[str, Any]]
    failed: bool = False

    @property
    def passing(self) -> bool:
        """Whether a reason in it can go away, so that it is worth measuring again."""
        return any(isinstance(row.get("reason"), Passing) for row in self.rows)

    @property
    def wrong(self) -> bool:
        """Whether it failed, or holds a check that was not passed."""
        return self.failed or any(row.get("passed") is False for row in self.rows)


class Ledger:
    """The cells of one table below a folder; `basis` is what the numbers of all of them depend on."""

    def __init__(self, folder: Path, stem: str, basis: Mapping[str, Any]) -> None:
        self._folder = folder / stem
        self._common = json.dumps([stem, basis], sort_keys=True)

    def find(self, cell: tuple, versions: Mapping[str, str]) -> Entry | None:
        """What was measured of a cell, if it was, with its kernels in these versions."""
        path = self._path(cell, versions)
        return Entry(**jsonfile.load(path)) if path.exists() else None

    def keep(self, cell: tuple, versions: Mapping[str, str], entry: Entry) -> None:
        """Write down a cell."""
        with whole(self._path(cell, versions)) as temporary:
            temporary.write_text(json.dumps(entry._asdict(), default=_plain), encoding="utf-8")

    @contextmanager
    def at_work(self, cell: tuple, versions: Mapping[str, str]) -> Iterator[Path]:
        """A cell that is measured inside: its mark, a file, stays where the process ends there."""
        mark = self._mark(cell, versions)
        with whole(mark) as temporary:
            temporary.write_text(str(self.ended_in(cell, versions) + 1), encoding="utf-8")
        try:
            yield mark
        finally:
            mark.unlink(missing_ok=True)

    def ended_in(self, cell: tuple, versions: Mapping[str, str]) -> int:
        """How often in a row the process has ended in a cell: it was killed, or the cell's kernels end it."""
        mark = self._mark(cell, versions)
        return int(mark.read_text(encoding="utf-8")) if mark.exists() else 0

    def begun(self) -> bool:
        """Whether cells of the table are kept, or were at work."""
        return bool(self._files())

    def clear(self) -> None:
        """Forget all cells of the table."""
        for path in self._files():
            path.unlink()

    def _files(self) -> list[Path]:
        return [*self._folder.glob("*.json"), *self._folder.glob(f"*{_MARK}")]

    def _mark(self, cell: tuple, versions: Mapping[str, str]) -> Path:
        return self._path(cell, versions).with_suffix(_MARK)

    def _path(self, cell: tuple, versions: Mapping[str, str]) -> Path:
        text = json.dumps([self._common, cell, dict(versions)])
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    return value.item()

"""The ledger of a campaign: one file per measured cell, so that a later failure loses nothing.

A cell's file is named by a hash of all that its numbers depend on: the table, the cell, its kernels and the
versions of their packages, the configuration, the code, the GPU and its compiler. The driver version stands
in the file: it comes from nvidia-smi, and is not compared where that is not available. A resumed campaign
therefore reuses exactly the cells that are still valid.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from layernorm_backward.gpu import variants
from layernorm_backward.gpu.reasons import KINDS, Fault, Transient
from layernorm_backward.storage import jsonfile
from layernorm_backward.storage.files import whole

FOLDER = "ledger"  # of a campaign, beside its tables
_MARK = ".begun"


class Entry(NamedTuple):
    """The rows of one cell, its samples, and whether it failed as a whole, for the reason in its rows; its
    duration, and the date of its end in ISO 8601. `again` is the fault found in a second measurement whose
    rows were not kept. `driver` is the driver version, "" where it is not known.
    """

    rows: list[dict[str, Any]]
    samples: list[dict[str, Any]]
    failed: bool = False
    seconds: float = 0.0
    date: str = ""
    again: str = ""
    driver: str = ""

    @property
    def transient(self) -> bool:
        """Whether some row has a transient reason, so that the cell is worth measuring again."""
        return len(self.settled) < len(self.rows)

    @property
    def settled(self) -> set[tuple[str, ...]]:
        """The names of the rows without a transient reason."""
        return {_names(row) for row in self.rows if not isinstance(row.get("reason"), Transient)}

    def after(self, before: "Entry | None") -> "Entry":
        """This entry merged with that of an earlier measurement: no row that was measured then is lost.

        If the cell has now failed for good, the rows that are still missing get that reason. A fault found
        now is reported even if its rows are not kept.
        """
        if before is None:
            return self
        if self.failed and not self.transient:
            rows = [
                row | {"reason": self.rows[0]["reason"]} if isinstance(row.get("reason"), Transient) else row
                for row in before.rows
            ]
            return self._replace(rows=rows, samples=before.samples, seconds=before.seconds + self.seconds)
        if self.settled >= before.settled:
            return self
        return before._replace(again=self.faults[0]) if self.faults else before

    @property
    def faults(self) -> list[str]:
        """Why it failed; or the faults of our kernels, row by row, and the fault `again`."""
        if self.failed:
            return [row["reason"] for row in self.rows if row["reason"]][:1]
        found = {" ".join(filter(None, _names(row))): _fault(row) for row in self.rows}
        named = [f"{name}: {fault}" for name, fault in found.items() if fault]
        return [*named, self.again] if self.again else named


class Ledger:
    """The cells of one table below a folder; `basis` is what all their numbers depend on, beside the
    `driver` where it is known.
    """

    def __init__(self, folder: Path, stem: str, basis: Mapping[str, Any], driver: str = "") -> None:
        self._folder, self._driver = folder / stem, driver
        self._common = json.dumps([stem, basis], sort_keys=True)

    def find(self, cell: tuple, versions: Mapping[str, str]) -> Entry | None:
        """The stored entry of a cell with its kernels in these versions; None where there is none."""
        path = self._path(cell, versions)
        if not path.exists():
            return None
        found = Entry(**jsonfile.load(path))
        if found.driver != self._driver and found.driver and self._driver:
            return None
        return found._replace(rows=[_read(row) for row in found.rows])

    def keep(self, cell: tuple, versions: Mapping[str, str], entry: Entry) -> None:
        """Store the entry of a cell."""
        rows = [_written(row) for row in entry.rows]
        stored = entry._replace(rows=rows, driver=self._driver or entry.driver)
        with whole(self._path(cell, versions)) as temporary:
            temporary.write_text(json.dumps(stored._asdict(), default=_plain), encoding="utf-8")

    @contextmanager
    def at_work(self, cell: tuple, versions: Mapping[str, str]) -> Iterator[Path]:
        """Marks the cell that is measured inside; the mark, a file, stays if the process ends there."""
        mark = self._mark(cell, versions)
        with whole(mark) as temporary:
            temporary.write_text(str(self.ended_in(cell, versions) + 1), encoding="utf-8")
        try:
            yield mark
        finally:
            mark.unlink(missing_ok=True)

    def ended_in(self, cell: tuple, versions: Mapping[str, str]) -> int:
        """How often in a row the process has ended in a cell: killed, or by one of the cell's kernels."""
        mark = self._mark(cell, versions)
        return int(mark.read_text(encoding="utf-8")) if mark.exists() else 0

    def begun(self) -> bool:
        """Whether cells of the table are stored or marked."""
        return bool(self._files())

    def clear(self) -> None:
        """Delete all cells of the table."""
        for path in self._files():
            path.unlink()

    def _files(self) -> list[Path]:
        return [*self._folder.glob("*.json"), *self._folder.glob(f"*{_MARK}")]

    def _mark(self, cell: tuple, versions: Mapping[str, str]) -> Path:
        return self._path(cell, versions).with_suffix(_MARK)

    def _path(self, cell: tuple, versions: Mapping[str, str]) -> Path:
        text = json.dumps([self._common, cell, dict(versions)])
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


def _fault(row: dict[str, Any]) -> str:
    """The fault of one of our kernels, or of a candidate mapping of one; "" for none, and for a peer."""
    reason = row.get("reason", "")
    if row.get("passed") is False:
        off = f"{row['value']:.3g}, over {row['limit']:g}" if "value" in row else ""
        return "; ".join(filter(None, (off, reason)))
    ours = "way" in row or variants.ours(row.get("kernel", ""))
    return reason if ours and isinstance(reason, Fault) else ""


def _names(row: dict[str, Any]) -> tuple[str, ...]:
    """What identifies a row within its cell."""
    return tuple(row.get(name, "") for name in ("kernel", "operation", "way", "quantity"))


def _written(row: dict[str, Any]) -> dict[str, Any]:
    """The row with its reason as {kind: text}, where the reason has a kind."""
    reason = row.get("reason")
    kinds = [name for name, kind in KINDS.items() if isinstance(reason, kind)]
    return row | {"reason": {kinds[0]: reason}} if kinds else row


def _read(row: dict[str, Any]) -> dict[str, Any]:
    reason = row.get("reason")
    if not isinstance(reason, dict):
        return row
    ((name, text),) = reason.items()
    return row | {"reason": KINDS[name](text)}


def _plain(value: Any) -> Any:
    """A NumPy scalar as a Python number."""
    return value.item()

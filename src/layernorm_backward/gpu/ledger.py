"""What a campaign has measured, cell by cell, each in a file of its own: nothing is lost by a later failure.

A cell's file is named by all that its numbers depend on: the table, the cell, its kernels and the versions of
their packages, the configuration, the code, the GPU and its compiler. The driver stands inside: nvidia-smi
tells it, and where that is silent, it does not count. So a campaign that goes on takes just what is still
right.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from layernorm_backward.gpu import variants
from layernorm_backward.gpu.reasons import KINDS, Fault, Passing
from layernorm_backward.storage import jsonfile
from layernorm_backward.storage.files import whole

FOLDER = "ledger"  # of a campaign, beside its tables
_MARK = ".begun"


class Entry(NamedTuple):
    """The rows of one cell, its samples, and whether it failed as a whole, which is then its rows' reason;
    how long that took, and the date when it was done, in ISO 8601. Where it was measured again, and these are
    from before, `again` is what was wrong then. `driver` is the GPU's, "" where it was not told.
    """

    rows: list[dict[str, Any]]
    samples: list[dict[str, Any]]
    failed: bool = False
    seconds: float = 0.0
    date: str = ""
    again: str = ""
    driver: str = ""

    @property
    def passing(self) -> bool:
        """Whether a reason in it can go away, so that it is worth measuring again."""
        return len(self.settled) < len(self.rows)

    @property
    def settled(self) -> set[tuple[str, ...]]:
        """What the rows without such a reason are of."""
        return {_names(row) for row in self.rows if not isinstance(row.get("reason"), Passing)}

    def after(self, before: "Entry | None") -> "Entry":
        """What is known of a cell that was measured before: no row that it had then is lost.

        Where it has failed for good, that is why the rows which are still missing are. A fault that is found
        in it is told even if its rows are not kept.
        """
        if before is None:
            return self
        if self.failed and not self.passing:
            rows = [
                row | {"reason": self.rows[0]["reason"]} if isinstance(row.get("reason"), Passing) else row
                for row in before.rows
            ]
            return self._replace(rows=rows, samples=before.samples, seconds=before.seconds + self.seconds)
        if self.settled >= before.settled:
            return self
        return before._replace(again=self.faults[0]) if self.faults else before

    @property
    def faults(self) -> list[str]:
        """Why it failed; or what is wrong with kernels of ours in it, row by row, and what was `again`."""
        if self.failed:
            return [row["reason"] for row in self.rows if row["reason"]][:1]
        found = {" ".join(filter(None, _names(row))): _fault(row) for row in self.rows}
        told = [f"{name}: {fault}" for name, fault in found.items() if fault]
        return [*told, self.again] if self.again else told


class Ledger:
    """The cells of one table below a folder; `basis` is what the numbers of all of them depend on, with the
    `driver` where it is told.
    """

    def __init__(self, folder: Path, stem: str, basis: Mapping[str, Any], driver: str = "") -> None:
        self._folder, self._driver = folder / stem, driver
        self._common = json.dumps([stem, basis], sort_keys=True)

    def find(self, cell: tuple, versions: Mapping[str, str]) -> Entry | None:
        """What was measured of a cell, if it was, with its kernels in these versions."""
        path = self._path(cell, versions)
        if not path.exists():
            return None
        found = Entry(**jsonfile.load(path))
        if found.driver != self._driver and found.driver and self._driver:
            return None
        return found._replace(rows=[_read(row) for row in found.rows])

    def keep(self, cell: tuple, versions: Mapping[str, str], entry: Entry) -> None:
        """Write down a cell."""
        rows = [_written(row) for row in entry.rows]
        told = entry._replace(rows=rows, driver=self._driver or entry.driver)
        with whole(self._path(cell, versions)) as temporary:
            temporary.write_text(json.dumps(told._asdict(), default=_plain), encoding="utf-8")

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


def _fault(row: dict[str, Any]) -> str:
    """What is wrong with a kernel of ours, or a way of one; "" for nothing, and for a peer."""
    reason = row.get("reason", "")
    if row.get("passed") is False:
        off = f"{row['value']:.3g}, over {row['limit']:g}" if "value" in row else ""
        return "; ".join(filter(None, (off, reason)))
    ours = "way" in row or variants.ours(row.get("kernel", ""))
    return reason if ours and isinstance(reason, Fault) else ""


def _names(row: dict[str, Any]) -> tuple[str, ...]:
    """By which a cell's rows are told apart."""
    return tuple(row.get(name, "") for name in ("kernel", "operation", "way", "quantity"))


def _written(row: dict[str, Any]) -> dict[str, Any]:
    """Its reason by the name of its kind, where it has one."""
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
    """NumPy's numbers as Python's."""
    return value.item()

"""One table of a campaign: measures its cells one by one and keeps their results.

An experiment is a module, named after its table, with
    cells(**config) -> {cell: kernels}, the most important first
    measure(board, pool, cell, kernels, *, time_left, **config) -> rows, samples
    unmeasured(cell, kernels, reason) -> rows
and, where some cells must wait until all other tables are measured, late(cell) -> whether this one must.
A cell is stored in the ledger as soon as it is measured. A cell with a transient reason is measured again
when the campaign is resumed, after all others; its rows stand in the table until then. A cell whose kernel
hung or left the device unusable is then skipped; so is a cell in which the process ended twice in a row, as
by a fault in a package, or was silent when time was up.
"""

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Literal, get_args

import pandas as pd

from layernorm_backward.gpu import contenders
from layernorm_backward.gpu.board import Board
from layernorm_backward.gpu.deadline import Deadline
from layernorm_backward.gpu.ledger import FOLDER, Entry, Ledger
from layernorm_backward.gpu.reasons import Transient
from layernorm_backward.gpu.rows import Pool
from layernorm_backward.gpu.watch import Watch
from layernorm_backward.one_line import one_line
from layernorm_backward.peers_on_gpu import PEERS
from layernorm_backward.records import tables
from layernorm_backward.records.tabulate import table

Turn = Literal["first", "late", "again"]
TURNS: tuple[Turn, ...] = get_args(Turn)  # each turn covers all tables before the next begins
TRIES = 2  # of a cell in which the process ends: it may have been killed for another reason
MACHINE = ("gpu", "driver_cuda", "nvrtc")  # of a board's description: what times depend on beside the driver


class Part:
    """The cells of a table that are wanted, and those that are found: measured now, or read from the ledger.

    `transient` cells are to be measured again: they have a transient reason, from an earlier campaign or
    because the end of this one cut them off.
    """

    def __init__(self, experiment: Any, config: Mapping[str, Any]) -> None:
        self.stem = experiment.__name__.rpartition(".")[2]
        self.wanted: dict[tuple, list[str]] = experiment.cells(**config)
        self.found: dict[tuple, Entry] = {}
        self.transient: dict[tuple, Entry] = {}
        self.experiment, self.config = experiment, config
        self._versions: dict[str, str] = {}
        self._ledger: Ledger | None = None
        self._record: dict[str, Any] = {}
        self._changes = 0
        self._written: tuple[Path, str, int] | None = None

    def keep_in(self, out: Path, record: Mapping[str, Any], *, resume: bool, anew: bool = False) -> None:
        """Store cells below a folder from now on; `resume` reuses stored cells, `anew` deletes them.

        ValueError where the folder holds cells and neither is given.
        """
        machine = {name: record["machine"].get(name) for name in MACHINE}
        basis = {"config": dict(self.config), "code_hash": record["code_hash"], "machine": machine}
        driver = record["machine"].get("driver", "")
        self._ledger, self._record = Ledger(out / FOLDER, self.stem, basis, driver), dict(record)
        self._versions = {name: contenders.version(name) for names in self.wanted.values() for name in names}
        if anew:
            self._ledger.clear()
        elif not resume and self._ledger.begun():
            raise ValueError(
                f"{out} holds cells of {self.stem}: --resume goes on with them, --anew measures all again"
            )
        kept = {cell: self._kept(self._ledger, cell) for cell in self.wanted}
        self.found = {cell: entry for cell, entry in kept.items() if entry and not entry.transient}
        self.transient = {cell: entry for cell, entry in kept.items() if entry and entry.transient}

    @property
    def faults(self) -> list[str]:
        """The first fault of each cell that failed, or in which one of our kernels is wrong."""
        found = {cell: entry.faults for cell, entry in self._entries.items()}
        return [f"{self.stem}, {_text(cell)}: {faults[0]}" for cell, faults in found.items() if faults]

    def cells(self, turn: Turn) -> list[tuple]:
        """The cells of a turn: "late" after the first cells of all tables, "again" (transient ones) last."""
        waits = getattr(self.experiment, "late", lambda _: False)
        if turn == "again":
            return list(self.transient)
        return [
            cell for cell in self.wanted if cell not in self.transient and waits(cell) == (turn == "late")
        ]

    def measure(self, board: Board, deadline: Deadline, watch: Watch, turn: Turn) -> None:
        """Measure the cells of a turn that are not found yet, until the deadline."""
        pool, cells = Pool(board, self.config["seed"]), self.cells(turn)
        for number, cell in enumerate(cells, start=1):
            if cell in self.found or deadline.left() <= 0:
                continue
            print(f"{self.stem} {number}/{len(cells)}: {_text(cell)}", file=sys.stderr, flush=True)
            started = monotonic()
            hung = partial(self._hung, cell, started)
            with self._at_work(cell) as mark, watch.over(hung, self._peers(cell), mark):
                entry = self._measured(board, pool, cell, deadline, watch)
            cut_off = entry.transient and deadline.left() <= 0
            if entry.settled or not cut_off:
                self._keep(cell, started, entry, again=cut_off)

    def table(self, reason: str) -> tuple[pd.DataFrame, pd.DataFrame]:
        """All rows, and all samples; rows that were not measured have the reason."""
        known = self._entries
        entries = [known.get(cell) or Entry(self._unmeasured(cell, reason), []) for cell in self.wanted]
        rows = [row for entry in entries for row in entry.rows]
        samples = pd.DataFrame([one for entry in entries for one in entry.samples])
        return table(rows, self.stem), samples

    def write(self, out: Path, reason: str) -> None:
        """Write table, record and samples, each atomically, unless nothing has changed since the last write.

        The record holds the total duration of all cells, and the date of the last one.
        """
        entries = self._entries.values()
        now = (out, reason if len(entries) < len(self.wanted) else "", self._changes)
        if now == self._written:
            return
        measured, samples = self.table(reason)
        path = out / "tables" / f"{self.stem}.csv"
        more = {
            "config": dict(self.config),
            "date": max((one.date for one in entries), default="") or _now(),
            "duration_s": round(sum(one.seconds for one in entries), 3),
        }
        tables.write(measured, path, self._record | more)
        if len(samples):
            tables.write_samples(samples, out / "samples" / path.name)
        else:  # a file that is there is of an earlier configuration or code
            (out / "samples" / path.name).unlink(missing_ok=True)
        self._written = now

    @property
    def _entries(self) -> dict[tuple, Entry]:
        return self.transient | self.found

    def _measured(self, board: Board, pool: Pool, cell: tuple, deadline: Deadline, watch: Watch) -> Entry:
        """One cell. If the device is lost in it, the campaign is stopped."""
        reason, names = "", self.wanted[cell]
        measure = self.experiment.measure
        try:
            entry = Entry(*measure(board, pool, cell, names, time_left=watch.time_left, **self.config))
        except Exception as error:  # out of memory, say: the next cells are measured all the same
            reason = one_line(error)
        lost = board.lost()
        if lost:
            deadline.stop(f"the device was lost in {self.stem}, {_text(cell)}: {reason or lost}")
            return Entry(self._unmeasured(cell, reason or f"Lost: {lost}"), [], failed=True)
        if reason:
            entry = Entry(self._unmeasured(cell, Transient(reason)), [], failed=True)
        try:
            board.release()
        except Exception as error:  # what was measured is kept; the next cells would find memory taken
            deadline.stop(f"no memory came back after {self.stem}, {_text(cell)}: {one_line(error)}")
        return entry

    def _hung(self, cell: tuple, started: float, reason: str) -> str:
        """Store a cell that hangs as failed; returns where it hung and why."""
        self._keep(cell, started, Entry(self._unmeasured(cell, reason), [], failed=True), again=False)
        return f"{self.stem}, {_text(cell)}: {reason}"

    def _kept(self, ledger: Ledger, cell: tuple) -> Entry | None:
        versions = self._versions_of(cell)
        entry, times = ledger.find(cell, versions), ledger.ended_in(cell, versions)
        if times < TRIES or (entry and not entry.transient):
            return entry
        reason = (
            f"the process ended in this cell, {times} times in a row: killed, by a kernel of the cell, or "
        )
        reason += "with one that did not answer"
        return Entry(self._unmeasured(cell, reason), [], failed=True).after(entry)

    def _at_work(self, cell: tuple) -> AbstractContextManager[Path | None]:
        return self._ledger.at_work(cell, self._versions_of(cell)) if self._ledger else nullcontext()

    def _keep(self, cell: tuple, started: float, entry: Entry, *, again: bool) -> None:
        """Store the result of a cell; with `again` it counts as transient, else as found."""
        entry = entry._replace(seconds=monotonic() - started, date=_now()).after(self.transient.get(cell))
        if self._ledger:
            self._ledger.keep(cell, self._versions_of(cell), entry)
        (self.transient if again else self.found)[cell] = entry
        self._changes += 1

    def _unmeasured(self, cell: tuple, reason: str) -> list[dict[str, Any]]:
        return self.experiment.unmeasured(cell, self.wanted[cell], reason)

    def _versions_of(self, cell: tuple) -> dict[str, str]:
        """The versions of a cell's kernels and peers."""
        return {name: self._versions[name] for name in self.wanted[cell]}

    def _peers(self, cell: tuple) -> int:
        return sum(name in PEERS for name in self.wanted[cell])


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _text(cell: tuple) -> str:
    return " ".join(map(str, cell))

"""One table of a campaign: its cells, measured one by one, and what is kept of them.

An experiment is a module with `STEM`, and
    cells(**config) -> {cell: kernels}, the most important first
    measure(board, pool, cell, kernels, *, time_left, **config) -> rows, samples
    unmeasured(cell, kernels, reason) -> rows
and, where some cells are to wait until all other tables are measured, late(cell) -> whether this one is.
A cell is kept in the ledger unless a reason in it can go away. One whose kernels have cost the device, or
hang, is kept too, so that a campaign which goes on gets past it; so is one in which the process has ended
twice in a row, as by a fault in a package.
"""

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import pandas as pd

from layernorm_backward.gpu import contenders, reasons
from layernorm_backward.gpu.board import Board
from layernorm_backward.gpu.ledger import FOLDER, Entry, Ledger
from layernorm_backward.gpu.reasons import Passing
from layernorm_backward.gpu.rows import Pool
from layernorm_backward.gpu.until import Until
from layernorm_backward.gpu.watch import Watch
from layernorm_backward.peers_on_gpu import PEERS
from layernorm_backward.records import tables
from layernorm_backward.records.tabulate import table

TRIES = 2  # of a cell in which the process ends: whoever killed it may have meant something else
MACHINE = ("gpu", "driver", "driver_cuda", "nvrtc")  # of a board's description: what a time depends on


class Part:
    """The cells of a table that are wanted, and those that are found: measured, or kept from before."""

    def __init__(self, experiment: Any, config: Mapping[str, Any]) -> None:
        self.stem = experiment.STEM
        self.wanted: dict[tuple, list[str]] = experiment.cells(**config)
        self.found: dict[tuple, Entry] = {}
        self._experiment, self._config = experiment, config
        self._versions: dict[str, str] = {}
        self._ledger: Ledger | None = None
        self._record: dict[str, Any] = {}
        self._seconds = 0.0

    def keep_in(self, out: Path, record: Mapping[str, Any], *, resume: bool, anew: bool = False) -> None:
        """Keep cells below a folder from now on; `resume` finds those that are there, `anew` forgets them.

        ValueError where cells are kept there, and neither was asked for.
        """
        machine = {name: record["machine"].get(name) for name in MACHINE}
        basis = {"config": dict(self._config), "code_hash": record["code_hash"], "machine": machine}
        self._ledger, self._record = Ledger(out / FOLDER, self.stem, basis), dict(record)
        self._versions = {name: contenders.version(name) for names in self.wanted.values() for name in names}
        if anew:
            self._ledger.clear()
        elif not resume and self._ledger.begun():
            raise ValueError(
                f"{out} holds cells of {self.stem}: --resume goes on with them, --anew measures all again"
            )
        kept = {cell: self._kept(self._ledger, cell) for cell in self.wanted}
        self.found = {cell: entry for cell, entry in kept.items() if entry}

    @property
    def wrong(self) -> int:
        """Cells that failed, or hold a failed check."""
        return sum(entry.wrong for entry in self.found.values())

    def cells(self, *, late: bool) -> list[tuple]:
        """Those that wait for all other tables, or those that do not."""
        waits = getattr(self._experiment, "late", lambda _: False)
        return [cell for cell in self.wanted if waits(cell) == late]

    def measure(self, board: Board, until: Until, watch: Watch, *, late: bool) -> None:
        """Measure those of the cells that are not found, until it ends."""
        pool, cells = Pool(board, self._config["seed"]), self.cells(late=late)
        for number, cell in enumerate(cells, start=1):
            if cell in self.found or until.left() <= 0:
                continue
            print(f"{self.stem} {number}/{len(cells)}: {_text(cell)}", file=sys.stderr, flush=True)
            started = monotonic()
            hung = partial(self._hung, cell)
            with self._at_work(cell) as mark, watch.over(hung, self._peers(cell), mark):
                entry = self._measured(board, pool, cell, until, watch)
            self._seconds += monotonic() - started
            if not entry.passing or until.left() > 0:
                self._keep(cell, entry)

    def table(self, reason: str) -> tuple[pd.DataFrame, pd.DataFrame]:
        """All rows, and the samples; those that were not measured have the reason."""
        entries = [
            self.found.get(cell) or Entry(self._unmeasured(cell, reason), [], failed=False)
            for cell in self.wanted
        ]
        rows = [row for entry in entries for row in entry.rows]
        samples = pd.DataFrame([one for entry in entries for one in entry.samples])
        return table(rows, self.stem), samples

    def write(self, out: Path, reason: str) -> None:
        """Table, record and samples, each whole."""
        measured, samples = self.table(reason)
        path = out / "tables" / f"{self.stem}.csv"
        more = {
            "config": dict(self._config),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "duration_s": round(self._seconds, 3),
        }
        tables.write(measured, path, self._record | more)
        if len(samples):
            tables.write_samples(samples, out / "samples" / path.name)

    def _measured(self, board: Board, pool: Pool, cell: tuple, until: Until, watch: Watch) -> Entry:
        """One cell. Where it has cost the device, the campaign is stopped."""
        reason, names = "", self.wanted[cell]
        measure = self._experiment.measure
        try:
            entry = Entry(*measure(board, pool, cell, names, time_left=watch.time_left, **self._config))
        except Exception as error:  # out of memory, say: the next cells are measured all the same
            reason = reasons.text(error)
        lost = board.lost()
        if lost:
            until.stop(f"the device was lost in {self.stem}, {_text(cell)}: {reason or lost}")
            return Entry(self._unmeasured(cell, reason or f"Lost: {lost}"), [], failed=True)
        if reason:
            entry = Entry(self._unmeasured(cell, Passing(reason)), [], failed=True)
        board.release()
        return entry

    def _hung(self, cell: tuple, reason: str) -> str:
        """Keep a cell that hangs, as one that has failed; the text says where it was."""
        self._keep(cell, Entry(self._unmeasured(cell, reason), [], failed=True))
        return f"{self.stem}, {_text(cell)}: {reason}"

    def _kept(self, ledger: Ledger, cell: tuple) -> Entry | None:
        entry, times = ledger.find(cell, self._these(cell)), ledger.ended_in(cell, self._these(cell))
        if entry or times < TRIES:
            return entry
        reason = f"the process ended in this cell, {times} times in a row: killed, or by a kernel of the cell"
        return Entry(self._unmeasured(cell, reason), [], failed=True)

    def _at_work(self, cell: tuple) -> AbstractContextManager[Path | None]:
        return self._ledger.at_work(cell, self._these(cell)) if self._ledger else nullcontext()

    def _keep(self, cell: tuple, entry: Entry) -> None:
        if self._ledger and not entry.passing:
            self._ledger.keep(cell, self._these(cell), entry)
        self.found[cell] = entry

    def _unmeasured(self, cell: tuple, reason: str) -> list[dict[str, Any]]:
        return self._experiment.unmeasured(cell, self.wanted[cell], reason)

    def _these(self, cell: tuple) -> dict[str, str]:
        """The versions of a cell's kernels and peers."""
        return {name: self._versions[name] for name in self.wanted[cell]}

    def _peers(self, cell: tuple) -> int:
        return sum(name in PEERS for name in self.wanted[cell])


def _text(cell: tuple) -> str:
    return " ".join(map(str, cell))

"""One table of a campaign: its cells, measured one by one, and what is kept of them.

An experiment is a module, called as its table, with
    cells(**config) -> {cell: kernels}, the most important first
    measure(board, pool, cell, kernels, *, time_left, **config) -> rows, samples
    unmeasured(cell, kernels, reason) -> rows
and, where some cells are to wait until all other tables are measured, late(cell) -> whether this one is.
A cell is kept in the ledger as soon as it is measured. One in which a reason can go away is measured again
when the campaign goes on, after all others; its rows stand in the table until then. One whose kernels have
cost the device, or hang, is passed by then; so is one in which the process has ended twice in a row, as by a
fault in a package, or silent when time was up.
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
from layernorm_backward.gpu.ledger import FOLDER, Entry, Ledger
from layernorm_backward.gpu.reasons import Passing
from layernorm_backward.gpu.rows import Pool
from layernorm_backward.gpu.until import Until
from layernorm_backward.gpu.watch import Watch
from layernorm_backward.one_line import one_line
from layernorm_backward.peers_on_gpu import PEERS
from layernorm_backward.records import tables
from layernorm_backward.records.tabulate import table

Turn = Literal["first", "late", "again"]
TURNS: tuple[Turn, ...] = get_args(Turn)  # of cells, each over all tables before the next
TRIES = 2  # of a cell in which the process ends: whoever killed it may have meant something else
MACHINE = ("gpu", "driver_cuda", "nvrtc")  # of a board's description: what a time depends on, and the driver


class Part:
    """The cells of a table that are wanted, and those that are found: measured, or kept from before.

    `passing` are to be measured again: a reason in them can go away, and they are of an earlier campaign, or
    the end of this one has cut them off.
    """

    def __init__(self, experiment: Any, config: Mapping[str, Any]) -> None:
        self.stem = experiment.__name__.rpartition(".")[2]
        self.wanted: dict[tuple, list[str]] = experiment.cells(**config)
        self.found: dict[tuple, Entry] = {}
        self.passing: dict[tuple, Entry] = {}
        self.experiment, self.config = experiment, config
        self._versions: dict[str, str] = {}
        self._ledger: Ledger | None = None
        self._record: dict[str, Any] = {}
        self._changes = 0
        self._written: tuple[Path, str, int] | None = None

    def keep_in(self, out: Path, record: Mapping[str, Any], *, resume: bool, anew: bool = False) -> None:
        """Keep cells below a folder from now on; `resume` finds those that are there, `anew` forgets them.

        ValueError where cells are kept there, and neither was asked for.
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
        self.found = {cell: entry for cell, entry in kept.items() if entry and not entry.passing}
        self.passing = {cell: entry for cell, entry in kept.items() if entry and entry.passing}

    @property
    def faults(self) -> list[str]:
        """What was found first in each cell that failed, or in which a kernel of ours is wrong."""
        found = {cell: entry.faults for cell, entry in self._entries.items()}
        return [f"{self.stem}, {_text(cell)}: {faults[0]}" for cell, faults in found.items() if faults]

    def cells(self, turn: Turn) -> list[tuple]:
        """Those whose turn it is: `late` ones wait for all other tables, those measured before for them."""
        waits = getattr(self.experiment, "late", lambda _: False)
        if turn == "again":
            return list(self.passing)
        return [cell for cell in self.wanted if cell not in self.passing and waits(cell) == (turn == "late")]

    def measure(self, board: Board, until: Until, watch: Watch, turn: Turn) -> None:
        """Measure those of the cells that are not found, until it ends."""
        pool, cells = Pool(board, self.config["seed"]), self.cells(turn)
        for number, cell in enumerate(cells, start=1):
            if cell in self.found or until.left() <= 0:
                continue
            print(f"{self.stem} {number}/{len(cells)}: {_text(cell)}", file=sys.stderr, flush=True)
            started = monotonic()
            hung = partial(self._hung, cell, started)
            with self._at_work(cell) as mark, watch.over(hung, self._peers(cell), mark):
                entry = self._measured(board, pool, cell, until, watch)
            cut_off = entry.passing and until.left() <= 0
            if entry.settled or not cut_off:
                self._keep(cell, started, entry, again=cut_off)

    def table(self, reason: str) -> tuple[pd.DataFrame, pd.DataFrame]:
        """All rows, and the samples; those that were not measured have the reason."""
        known = self._entries
        entries = [known.get(cell) or Entry(self._unmeasured(cell, reason), []) for cell in self.wanted]
        rows = [row for entry in entries for row in entry.rows]
        samples = pd.DataFrame([one for entry in entries for one in entry.samples])
        return table(rows, self.stem), samples

    def write(self, out: Path, reason: str) -> None:
        """Table, record and samples, each whole, unless they are written so already.

        The record says how long all that is in them took, and when the last of it was done.
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
        else:  # those of an earlier configuration or code, perhaps
            (out / "samples" / path.name).unlink(missing_ok=True)
        self._written = now

    @property
    def _entries(self) -> dict[tuple, Entry]:
        return self.passing | self.found

    def _measured(self, board: Board, pool: Pool, cell: tuple, until: Until, watch: Watch) -> Entry:
        """One cell. Where it has cost the device, the campaign is stopped."""
        reason, names = "", self.wanted[cell]
        measure = self.experiment.measure
        try:
            entry = Entry(*measure(board, pool, cell, names, time_left=watch.time_left, **self.config))
        except Exception as error:  # out of memory, say: the next cells are measured all the same
            reason = one_line(error)
        lost = board.lost()
        if lost:
            until.stop(f"the device was lost in {self.stem}, {_text(cell)}: {reason or lost}")
            return Entry(self._unmeasured(cell, reason or f"Lost: {lost}"), [], failed=True)
        if reason:
            entry = Entry(self._unmeasured(cell, Passing(reason)), [], failed=True)
        try:
            board.release()
        except Exception as error:  # what was measured is kept; the next cells would find memory taken
            until.stop(f"no memory came back after {self.stem}, {_text(cell)}: {one_line(error)}")
        return entry

    def _hung(self, cell: tuple, started: float, reason: str) -> str:
        """Keep a cell that hangs, as one that has failed; the text says where it was."""
        self._keep(cell, started, Entry(self._unmeasured(cell, reason), [], failed=True), again=False)
        return f"{self.stem}, {_text(cell)}: {reason}"

    def _kept(self, ledger: Ledger, cell: tuple) -> Entry | None:
        entry, times = ledger.find(cell, self._these(cell)), ledger.ended_in(cell, self._these(cell))
        if times < TRIES or (entry and not entry.passing):
            return entry
        reason = (
            f"the process ended in this cell, {times} times in a row: killed, by a kernel of the cell, or "
        )
        reason += "with one that did not answer"
        return Entry(self._unmeasured(cell, reason), [], failed=True).after(entry)

    def _at_work(self, cell: tuple) -> AbstractContextManager[Path | None]:
        return self._ledger.at_work(cell, self._these(cell)) if self._ledger else nullcontext()

    def _keep(self, cell: tuple, started: float, entry: Entry, *, again: bool) -> None:
        """What is known of a cell now; it is not found where it is to be measured again."""
        entry = entry._replace(seconds=monotonic() - started, date=_now()).after(self.passing.get(cell))
        if self._ledger:
            self._ledger.keep(cell, self._these(cell), entry)
        (self.passing if again else self.found)[cell] = entry
        self._changes += 1

    def _unmeasured(self, cell: tuple, reason: str) -> list[dict[str, Any]]:
        return self.experiment.unmeasured(cell, self.wanted[cell], reason)

    def _these(self, cell: tuple) -> dict[str, str]:
        """The versions of a cell's kernels and peers."""
        return {name: self._versions[name] for name in self.wanted[cell]}

    def _peers(self, cell: tuple) -> int:
        return sum(name in PEERS for name in self.wanted[cell])


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _text(cell: tuple) -> str:
    return " ".join(map(str, cell))

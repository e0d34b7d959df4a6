"""A campaign: the cells of GPU experiments measured one by one, until they are done or it has to end.

An experiment is a module with `STEM`, and
    cells(**config) -> {cell: kernels}, the most important first
    measure(board, pool, cell, kernels, *, time_left, **config) -> rows, samples
    unmeasured(cell, kernels, reason) -> rows
A cell is kept in the ledger unless a reason in it can go away. One whose kernels have cost the device is kept
too, so that a campaign which goes on gets past it.
"""

import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import pandas as pd

from layernorm_backward import tables
from layernorm_backward.gpu import contenders, reasons
from layernorm_backward.gpu.board import Board, Gpu
from layernorm_backward.gpu.ledger import Entry, Ledger
from layernorm_backward.gpu.reasons import Passing
from layernorm_backward.gpu.rows import Pool
from layernorm_backward.gpu.until import INTERRUPTED, Until
from layernorm_backward.kernels import device_missing
from layernorm_backward.tabulate import table

MACHINE = ("gpu", "driver", "driver_cuda")  # of a board's description: what a time depends on


class Progress(NamedTuple):
    """Cells of a table that are done, of all, and those of them that failed or hold a failed check."""

    stem: str
    done: int
    all: int
    wrong: int


def live(experiment: Any, config: Mapping[str, Any]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Table and samples of an experiment on the device here; rows with the reason where there is none."""
    wanted, found = experiment.cells(**config), {}
    reason = device_missing()
    if not reason:
        until = Until(inf)
        _measure(Gpu(), experiment, config, None, until, found)
        reason = until.reason
    return _assembled(_whole(experiment, wanted, found, reason), experiment.STEM)


def part(
    board: Board,
    experiment: Any,
    config: Mapping[str, Any],
    out: Path,
    record: Mapping[str, Any],
    until: Until,
    *,
    resume: bool,
) -> Progress:
    """Measure what time allows of one table; the table is written as far as it is, whatever happens."""
    machine = {name: record["machine"].get(name) for name in MACHINE}
    basis = {"config": dict(config), "code_hash": record["code_hash"], "machine": machine}
    ledger = Ledger(out / "ledger", experiment.STEM, basis)
    if not resume:
        ledger.clear()
    wanted, found, started = experiment.cells(**config), {}, monotonic()
    try:
        _measure(board, experiment, config, ledger, until, found)
    except KeyboardInterrupt:
        until.stop(INTERRUPTED)
    except BaseException as error:
        until.stop(reasons.text(error))
        raise
    finally:
        more = {
            "config": dict(config),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "duration_s": round(monotonic() - started, 3),
        }
        _write(experiment, _whole(experiment, wanted, found, until.reason), out, {**record, **more})
    return Progress(experiment.STEM, len(found), len(wanted), sum(entry.wrong for entry in found.values()))


def _measure(
    board: Board,
    experiment: Any,
    config: Mapping[str, Any],
    ledger: Ledger | None,
    until: Until,
    found: dict[tuple, Entry],
) -> None:
    """Fill `found` with the cells that are kept and those that are measured until it ends."""
    wanted, pool = experiment.cells(**config), Pool(board, config["seed"])
    versions = {name: contenders.version(name) for names in wanted.values() for name in names}
    for number, (cell, names) in enumerate(wanted.items(), start=1):
        these = {name: versions[name] for name in names}
        entry = ledger.find(cell, these) if ledger else None
        if entry is None and until.left() > 0:
            print(f"{experiment.STEM} {number}/{len(wanted)}: {_text(cell)}", file=sys.stderr, flush=True)
            entry = _measured(board, experiment, pool, cell, names, config, until)
            if entry.passing and until.left() <= 0:
                continue
            if ledger and not entry.passing:
                ledger.keep(cell, these, entry)
        if entry is not None:
            found[cell] = entry


def _measured(
    board: Board,
    experiment: Any,
    pool: Pool,
    cell: tuple,
    names: list[str],
    config: Mapping[str, Any],
    until: Until,
) -> Entry:
    """One cell. Where it has cost the device, the campaign is stopped."""
    reason = ""
    try:
        entry = Entry(*experiment.measure(board, pool, cell, names, time_left=until.left, **config))
    except Exception as error:  # out of memory, say: the next cells are measured all the same
        reason = reasons.text(error)
    lost = board.lost()
    if lost:
        until.stop(f"the device was lost in {experiment.STEM}, {_text(cell)}: {reason or lost}")
        return Entry(experiment.unmeasured(cell, names, reason or f"Lost: {lost}"), [], failed=True)
    if reason:
        entry = Entry(experiment.unmeasured(cell, names, Passing(reason)), [], failed=True)
    board.release()
    return entry


def _whole(
    experiment: Any, wanted: Mapping[tuple, list[str]], found: Mapping[tuple, Entry], reason: str
) -> list[Entry]:
    """All cells; those that were not measured have the reason."""
    return [
        found.get(cell) or Entry(experiment.unmeasured(cell, names, reason), [])
        for cell, names in wanted.items()
    ]


def _write(experiment: Any, entries: Iterable[Entry], out: Path, record: Mapping[str, Any]) -> None:
    """Table and samples of a part, each whole."""
    measured, samples = _assembled(entries, experiment.STEM)
    path = out / "tables" / f"{experiment.STEM}.csv"
    tables.write(measured, path, dict(record))
    if len(samples):
        tables.write_samples(samples, out / "samples" / path.name)


def _assembled(entries: Iterable[Entry], stem: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    entries = list(entries)
    rows = [row for entry in entries for row in entry.rows]
    return table(rows, stem), pd.DataFrame([one for entry in entries for one in entry.samples])


def _text(cell: tuple) -> str:
    return " ".join(map(str, cell))

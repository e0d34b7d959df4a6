"""A campaign: the cells of GPU experiments measured one by one, until they are done or time is up.

An experiment is a module with `STEM`, and
    cells(**config) -> {cell: kernels}, the most important first
    measure(board, pool, cell, kernels, **config) -> rows, samples
    unmeasured(cell, kernels, reason) -> rows
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import pandas as pd

from layernorm_backward import tables
from layernorm_backward.gpu.board import Board, Gpu
from layernorm_backward.gpu.ledger import Entry, Ledger
from layernorm_backward.gpu.rows import Pool
from layernorm_backward.kernels import device_missing
from layernorm_backward.tabulate import table

LATER = "not measured: time was up"


class Progress(NamedTuple):
    """Cells of a table that are done, of all."""

    stem: str
    done: int
    all: int


def live(experiment: Any, config: Mapping[str, Any]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Table and samples of an experiment on the device here; rows with the reason where there is none."""
    wanted = experiment.cells(**config)
    reason = device_missing()
    if reason:
        rows = [row for cell, names in wanted.items() for row in experiment.unmeasured(cell, names, reason)]
        return table(rows, experiment.STEM), pd.DataFrame()
    board = Gpu()
    pool = Pool(board, config["seed"])
    found = [
        _measured(board, experiment, pool, cell, names, config)[0]
        for cell, names in _told(experiment.STEM, wanted)
    ]
    return _assembled(experiment, found)


def part(
    board: Board,
    experiment: Any,
    config: Mapping[str, Any],
    out: Path,
    record: Mapping[str, Any],
    *,
    time_left: Callable[[], float],
    resume: bool,
) -> Progress:
    """Measure what time allows of one table, and write the table as far as it is."""
    ledger = Ledger(out / "ledger", experiment.STEM, config, record["code_hash"])
    if not resume:
        ledger.clear()
    wanted, started = experiment.cells(**config), monotonic()
    pool, found = Pool(board, config["seed"]), {}
    for cell, names in _told(experiment.STEM, wanted):
        kept = ledger.find(cell, names)
        if kept is None:
            if time_left() <= 0:
                break
            kept, failed = _measured(board, experiment, pool, cell, names, config)
            if not failed:
                ledger.keep(cell, names, kept)
        found[cell] = kept
    left = [cell for cell in wanted if cell not in found]
    found |= {cell: Entry(experiment.unmeasured(cell, wanted[cell], LATER), []) for cell in left}
    measured, samples = _assembled(experiment, found.values())
    path = out / "tables" / f"{experiment.STEM}.csv"
    more = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "duration_s": round(monotonic() - started, 3),
    }
    tables.write(measured, path, {**record, "config": dict(config), **more})
    if len(samples):
        tables.write_samples(samples, out / "samples" / path.name)
    return Progress(experiment.STEM, len(wanted) - len(left), len(wanted))


def _measured(
    board: Board, experiment: Any, pool: Pool, cell: tuple, names: list[str], config: Mapping[str, Any]
) -> tuple[Entry, bool]:
    """One cell, and whether it failed as a whole, which is then the reason of its rows."""
    try:
        return Entry(*experiment.measure(board, pool, cell, names, **config)), False
    except Exception as error:  # out of memory, say: the next cells are measured all the same
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return Entry(experiment.unmeasured(cell, names, reason), []), True
    finally:
        board.release()


def _assembled(experiment: Any, found: Iterable[Entry]) -> tuple[pd.DataFrame, pd.DataFrame]:
    found = list(found)
    rows = [row for entry in found for row in entry.rows]
    return table(rows, experiment.STEM), pd.DataFrame([one for entry in found for one in entry.samples])


def _told(stem: str, wanted: Mapping[tuple, list[str]]) -> Iterator[tuple[tuple, list[str]]]:
    """The cells, with a line of progress on stderr for each."""
    for number, (cell, names) in enumerate(wanted.items(), start=1):
        print(f"{stem} {number}/{len(wanted)}: {' '.join(map(str, cell))}", file=sys.stderr, flush=True)
        yield cell, names

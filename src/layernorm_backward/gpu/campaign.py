"""A campaign: measures the tables of GPU experiments one by one, until all are done or time is up."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

import pandas as pd

from layernorm_backward.gpu import precompile
from layernorm_backward.gpu.board import Board, Gpu
from layernorm_backward.gpu.deadline import INTERRUPTED, Deadline
from layernorm_backward.gpu.part import TURNS, Part
from layernorm_backward.gpu.watch import Watch
from layernorm_backward.kernels import device_missing
from layernorm_backward.one_line import one_line

Keep = Callable[[pd.DataFrame, pd.DataFrame], None]  # a table and its samples


def live(
    experiment: Any, config: Mapping[str, Any], keep: Keep = lambda *_: None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Table and samples of an experiment on the current device; without a device, rows that give the reason.

    If a kernel hangs, `keep` gets what has been measured so far, and the process ends with exit code 0.
    """
    part, deadline = Part(experiment, config), Deadline(inf)
    reason = device_missing()
    if not reason:
        with Watch(
            deadline, lambda: keep(*part.table(deadline.reason)), "its rows say so", status=0
        ) as watch:
            list(_measured(Gpu(), [part], deadline, watch))
        reason = deadline.reason
    return part.table(reason)


def described() -> dict[str, Any]:
    """The description of the current device; empty where there is none."""
    return {} if device_missing() else Gpu().describe()


def run(board: Board, parts: Sequence[Part], out: Path, deadline: Deadline) -> None:
    """Measure what time allows; whatever happens, all that has been measured is written."""

    def write() -> None:
        """Write all tables, even if one of them cannot be written; the first error is raised at the end."""
        faults = []
        for part in parts:
            try:
                part.write(out, deadline.reason)
            except Exception as error:
                faults.append(error)
        if faults:
            raise faults[0]

    try:
        with Watch(deadline, write, "go on with --resume") as watch:
            for part in _measured(board, parts, deadline, watch):
                part.write(out, deadline.reason)
                done = f"{part.stem}: {len(part.found)} of {len(part.wanted)} cells"
                print(f"{done}, {deadline.left() / 60:.1f} minutes left", flush=True)
    except KeyboardInterrupt:
        deadline.stop(INTERRUPTED)
    except BaseException as error:
        deadline.stop(one_line(error))
        raise
    finally:
        write()


def _measured(board: Board, parts: Sequence[Part], deadline: Deadline, watch: Watch) -> Iterator[Part]:
    """Yields each part once its cells of a turn are measured; each turn covers all parts."""
    precompile.compile_programs(board, parts, deadline)
    for turn in TURNS:
        for part in parts:
            if part.cells(turn):
                part.measure(board, deadline, watch, turn)
                yield part

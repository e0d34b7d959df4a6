"""A campaign: the tables of GPU experiments measured one after the other, until they are done or it ends."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

import pandas as pd

from layernorm_backward.gpu import ahead
from layernorm_backward.gpu.board import Board, Gpu
from layernorm_backward.gpu.part import TURNS, Part
from layernorm_backward.gpu.until import INTERRUPTED, Until
from layernorm_backward.gpu.watch import Watch
from layernorm_backward.kernels import device_missing
from layernorm_backward.one_line import one_line

Keep = Callable[[pd.DataFrame, pd.DataFrame], None]  # a table and its samples


def live(
    experiment: Any, config: Mapping[str, Any], keep: Keep = lambda *_: None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Table and samples of an experiment on the device here; rows with the reason where there is none.

    Where a kernel hangs, both are given to `keep` as far as they are, and the process ends, with exit code 0.
    """
    part, until = Part(experiment, config), Until(inf)
    reason = device_missing()
    if not reason:
        with Watch(until, lambda: keep(*part.table(until.reason)), "its rows say so", status=0) as watch:
            list(_measured(Gpu(), [part], until, watch))
        reason = until.reason
    return part.table(reason)


def described() -> dict[str, Any]:
    """What the device here calls itself; nothing where there is none."""
    return {} if device_missing() else Gpu().describe()


def run(board: Board, parts: Sequence[Part], out: Path, until: Until) -> None:
    """Measure what time allows; tables are written as far as they are, whatever happens."""

    def write() -> None:
        """All tables; one that cannot be written keeps no other from it."""
        faults = []
        for part in parts:
            try:
                part.write(out, until.reason)
            except Exception as error:
                faults.append(error)
        if faults:
            raise faults[0]

    try:
        with Watch(until, write, "go on with --resume") as watch:
            for part in _measured(board, parts, until, watch):
                part.write(out, until.reason)
                done = f"{part.stem}: {len(part.found)} of {len(part.wanted)} cells"
                print(f"{done}, {until.left() / 60:.1f} minutes left", flush=True)
    except KeyboardInterrupt:
        until.stop(INTERRUPTED)
    except BaseException as error:
        until.stop(one_line(error))
        raise
    finally:
        write()


def _measured(board: Board, parts: Sequence[Part], until: Until, watch: Watch) -> Iterator[Part]:
    """Each part when its cells of a turn are measured, all parts before the next turn."""
    ahead.compile_programs(board, parts, until)
    for turn in TURNS:
        for part in parts:
            if part.cells(turn):
                part.measure(board, until, watch, turn)
                yield part

"""Checks the passes of one cell, then times them interleaved with the streams that are their roof."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from layernorm_backward.directions import TENSORS
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.gpu import contenders, exact, reasons, roofs, timer
from layernorm_backward.gpu.board import Board
from layernorm_backward.gpu.contenders import Contender
from layernorm_backward.gpu.reasons import Fault
from layernorm_backward.gpu.rows import Arrays
from layernorm_backward.gpu.timer import Timed
from layernorm_backward.kernels.cuda.machine import Program

WARM = "its calls are timed by the host's clock, several behind each other: only the first finds an empty L2"
Rows = list[dict[str, Any]]


class Shape(NamedTuple):
    """A pass to be timed: direction, dtypes and shape."""

    direction: str
    dtype: str
    gamma_dtype: str
    rows: int
    hidden: int

    @property
    def bytes(self) -> int:
        """Bytes of the arrays (rows, hidden) that the pass reads and writes."""
        return TENSORS[self.direction] * self.rows * self.hidden * dtype_of(self.dtype).itemsize


def programs(shapes: Iterable[Shape]) -> list[Program]:
    """The programs of the streams that are the roof of passes on these shapes."""
    kinds = dict.fromkeys((one.direction, one.dtype) for one in shapes)
    return [one for direction, dtype in kinds for one in roofs.programs(roofs.of(direction), dtype)]


class Settings(NamedTuple):
    """How passes are checked and timed. The limits are the largest errors allowed, in u of their dtype:
    y and dx by x's dtype, sums by gamma's; the other fields are as in `timer.compare`.
    """

    error_limit_u: Mapping[str, float]
    sums_limit_u: Mapping[str, float]
    eps: float
    repeats: int
    at_least: int
    budget_s: float
    seed: int

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Settings":
        """The settings from the arguments of an experiment."""
        return cls(**{name: config[name] for name in cls._fields})


class Ready(NamedTuple):
    """A contender, the call that is timed, the method of timing, and the errors of its results."""

    contender: Contender
    timed: Timed
    method: str
    errors: dict[str, float]


class Found(NamedTuple):
    """The contenders that were timed, why the others were not, the columns common to all, and the samples."""

    ready: dict[str, Ready]
    reasons: dict[str, str]
    common: dict[str, Any]
    samples: pd.DataFrame

    def times(self, name: str, shape: Shape, ours: str, against: str) -> dict[str, Any]:
        """Times of one contender, with its ratios to the roof and, in the columns `against`, to `ours`."""
        found = timer.summary(self.samples, name)._asdict()
        found["useful_gb_per_s"] = shape.bytes / found["median_s"] / 1e9
        found |= timer.ratio(self.samples, self.common["roof_operation"], name).columns("roof_fraction")
        if ours in self.ready:
            found |= timer.ratio(self.samples, name, ours).columns(against)
        return found


def compared(
    board: Board,
    given: Arrays,
    shape: Shape,
    names: Iterable[str],
    prepare: Callable[[str], Contender],
    settings: Settings,
    time_left: Callable[[], float],
) -> Found:
    """Prepare, check and time passes on the same arrays; `time_left` is called before each is prepared.

    Where the arrays take less than `timer.BEYOND` times the L2 cache, the cache is filled with other data
    before each sample. `prepare` may raise any exception.
    """
    memory = shape.bytes >= timer.BEYOND * board.l2_bytes
    ready: dict[str, Ready] = {}
    refused: dict[str, str] = {}
    for name in names:
        time_left()
        found = _checked(board, name, prepare, shape, given, settings)
        if isinstance(found, Ready) and found.timed.wait and not memory:
            found = WARM
        if isinstance(found, str):
            refused[name] = found
        else:
            ready[name] = found
    calls = {name: one.timed for name, one in ready.items()}
    arrays = (board.xp.empty(given.x.shape, given.x.dtype), given.x, given.dy)
    streams = roofs.of(shape.direction)
    calls |= {name: Timed(board.captured(roofs.stream(board, name, *arrays))) for name in streams}
    how = {name: getattr(settings, name) for name in ("repeats", "at_least", "budget_s", "seed")}
    samples = timer.compare(board, calls, cold=not memory, **how).assign(**board.state())
    common = {"residency": "memory" if memory else "cold"} | _roof(samples, streams, shape)
    return Found(ready, refused, common, samples)


def _checked(
    board: Board,
    name: str,
    prepare: Callable[[str], Contender],
    shape: Shape,
    given: Arrays,
    settings: Settings,
) -> Ready | str:
    """A contender whose results are right on these arrays, else the reason why it is not timed."""
    try:
        found = prepare(name)
        if shape.direction not in found.passes:
            return f"it has no {shape.direction} pass: {found.note}"
        timed, method = contenders.replayed(found, shape.direction)
        off = exact.errors(board.xp, given, found.results(), settings.eps)
    except Exception as error:  # the others are timed all the same
        return reasons.of(board, name, error)
    wrong = _wrong(off, shape, settings)
    if wrong:
        return Fault(wrong)
    errors = {"error_u_max": off.y}
    if shape.direction == "backward":
        errors = {"error_u_max": off.dx, "sums_error_u": _of_sums(off)}
    return Ready(found, timed, method or ("host clock" if timed.wait else "launched"), errors)


def _wrong(off: exact.Errors, shape: Shape, settings: Settings) -> str:
    """Which error is over its limit in the direction of a shape; "" where none is."""
    error_u, sums_u = settings.error_limit_u[shape.dtype], settings.sums_limit_u[shape.gamma_dtype]
    judged = {"y": (off.y, error_u)}
    if shape.direction == "backward":
        judged = {"dx": (off.dx, error_u), "dgamma or dbeta": (_of_sums(off), sums_u)}
    over = [
        f"{name} is {error:.3g} u, over {limit:g} u"
        for name, (error, limit) in judged.items()
        if not error <= limit
    ]
    return f"wrong: error of {over[0]}" if over else ""


def _of_sums(off: exact.Errors) -> float:
    """The larger error of dgamma and dbeta; NaN where one of them is."""
    return float(np.maximum(off.dgamma, off.dbeta))


def _roof(samples: pd.DataFrame, streams: list[str], shape: Shape) -> dict[str, Any]:
    medians = {name: timer.summary(samples, name).median_s for name in streams}
    fastest = min(medians, key=medians.__getitem__)
    return {"roof_operation": fastest, "roof_gb_per_s": shape.bytes / medians[fastest] / 1e9}

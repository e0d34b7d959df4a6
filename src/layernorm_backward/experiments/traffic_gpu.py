"""Bytes that each kernel moves between this GPU and its memory, against the fewest that will do.

minimum_bytes: x, dy read once and dx written (backward), x read and y written (forward), mean and rstd of
each row, and the vectors of length D. modelled_bytes: the traffic of our kernels by their plan, including the
partial sums of dgamma and dbeta (written and read once), and, where rows are too long for one read, the
coefficients of each row as often as they are read. measured_bytes: counted by Nsight Compute, with the caches
flushed before each kernel of a pass; the arrays should be far larger than the L2 cache, which otherwise
retains what was written.
accesses_per_element: reads and writes of an element of a tensor of x's size, in memory.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from layernorm_backward.directions import Direction
from layernorm_backward.dtypes import DtypeName, dtype_of
from layernorm_backward.experiments._gpu_arguments import Count, Peers, Seed, Several
from layernorm_backward.gpu import contenders, counters, modelled
from layernorm_backward.gpu.board import Board
from layernorm_backward.gpu.rows import Pool
from layernorm_backward.gpu.tools import Pass
from layernorm_backward.traffic.minimum import minimum_bytes

REQUIRES = ("cupy", "a CUDA device")
Rows = list[dict[str, Any]]


class Cell(NamedTuple):
    """A pass over rows of one shape and dtype."""

    direction: str
    dtype: str
    rows: int
    hidden: int


def run(
    *,
    kernels: Several[str],
    peers: Peers,
    directions: Several[Direction],
    dtypes: Several[DtypeName],
    hidden: Several[Count],
    array_bytes: Count,
    seed: Seed,
) -> None:
    """The config: `gpu.campaign.live` measures its `cells`.

    One row a kernel or peer, direction, dtype and shape.
    """


def cells(
    *,
    kernels: list[str],
    peers: list[str],
    directions: list[str],
    dtypes: list[str],
    hidden: list[int],
    array_bytes: int,
    **_: Any,
) -> dict[Cell, list[str]]:
    """The kernels and peers of each cell; an array has `array_bytes` at most, or one row."""
    return {
        Cell(direction, dtype, max(1, array_bytes // (size * dtype_of(dtype).itemsize)), size): [
            *kernels,
            *peers,
        ]
        for size in hidden
        for dtype in dtypes
        for direction in directions
    }


def measure(
    board: Board, pool: Pool, cell: Cell, names: list[str], *, time_left: Callable[[], float], **_: Any
) -> tuple[Rows, Rows]:
    """One row per kernel; there are no samples."""
    minimum = minimum_bytes(*cell)
    found = []
    for name in names:
        row = _keys(cell, name) | {"minimum_bytes": float(minimum)}
        row |= modelled.columns(name, *cell, board.machine)
        found.append(row | _counted(name, cell, minimum, time_left()))
    return found, []


def _counted(name: str, cell: Cell, minimum: int, time_left: float) -> dict[str, Any]:
    """The bytes that the profiler counts for one kernel or peer, or the reason why there are none."""
    missing = contenders.missing(name)
    if missing:
        return {"reason": missing}
    counted = counters.counted(Pass(name, *cell), time_left)
    if counted.reason:
        return {"reason": counted.reason}
    return {
        "measured_bytes": counted.bytes,
        "measured_over_minimum": counted.bytes / minimum,
        "launches": float(counted.kernels),
        "method": "counted by Nsight Compute",
        "reason": "",
    }


def unmeasured(cell: Cell, names: list[str], reason: str) -> Rows:
    """The rows of a cell that could not be measured at all."""
    return [_keys(cell, name) | {"reason": reason} for name in names]


def _keys(cell: Cell, name: str) -> dict[str, Any]:
    return {"kernel": name, **cell._asdict()}

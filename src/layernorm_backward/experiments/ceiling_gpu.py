"""What this GPU can do at most: copy and triad in each of several ways, and multiply-adds in registers.

Streams run interleaved over arrays of `bytes` bytes each; gb_per_s counts what they must read and write.
multiply_add runs many independent chains in the registers of every thread. Sums of 16-bit rows are in
float32, so its peak is theirs, too. threads are those of the host that launches.
"""

from typing import Any, NamedTuple

from layernorm_backward.dtypes import DtypeName
from layernorm_backward.experiments._gpu_arguments import Count, Distinct, Seconds, Seed, Several
from layernorm_backward.gpu import roofs, timer
from layernorm_backward.gpu.board import Board
from layernorm_backward.gpu.rows import Pool
from layernorm_backward.gpu.timer import Timed
from layernorm_backward.kernels.cuda.machine import Program
from layernorm_backward.kernels.cuda.plan import Hardware

REQUIRES = ("cupy", "a CUDA device")
HIDDEN = 1024
Rows = list[dict[str, Any]]


class Cell(NamedTuple):
    """Arrays of so many bytes each; 0 bytes for the multiply-adds."""

    dtype: str
    bytes: int


def run(
    *,
    dtypes: Several[DtypeName],
    sizes: Several[Count],
    flop_dtypes: Distinct[DtypeName],
    repeats: Count,
    at_least: Count,
    budget_s: Seconds,
    seed: Seed,
) -> None:
    """The config: `gpu.campaign.live` measures its `cells`, one row an operation, dtype and size of array."""


def cells(*, dtypes: list[str], sizes: list[int], flop_dtypes: list[str], **_: Any) -> dict[Cell, list[str]]:
    """The operations of each cell."""
    found = {Cell(dtype, size): list(roofs.OPERATIONS) for dtype in dtypes for size in sizes}
    return found | {Cell(dtype, 0): [roofs.MULTIPLY_ADD] for dtype in flop_dtypes}


def programs(hardware: Hardware, **config: Any) -> list[Program]:
    """The programs of the operations of all cells."""
    found = (roofs.programs(names, cell.dtype) for cell, names in cells(**config).items())
    return list(dict.fromkeys(one for programs in found for one in programs))


def measure(
    board: Board,
    pool: Pool,
    cell: Cell,
    names: list[str],
    *,
    repeats: int,
    at_least: int,
    budget_s: float,
    seed: int,
    **_: Any,
) -> tuple[Rows, Rows]:
    """The rows of one cell, and its samples."""
    if cell.bytes:
        given = pool.arrays(
            cell.bytes // (HIDDEN * pool.itemsize(cell.dtype)), HIDDEN, cell.dtype, cell.dtype
        )
        arrays = (board.xp.empty(given.x.shape, given.x.dtype), given.x, given.dy)
        calls = {name: Timed(roofs.stream(board, name, *arrays)) for name in names}
    else:
        calls = {roofs.MULTIPLY_ADD: Timed(roofs.multiply_adds(board, cell.dtype))}
    how = {"repeats": repeats, "at_least": at_least, "budget_s": budget_s, "seed": seed}
    samples = timer.compare(board, calls, cold=0 < cell.bytes < timer.BEYOND * board.l2_bytes, **how)
    rows = []
    for name in names:
        found = timer.summary(samples, name)
        rows.append(_keys(cell, name) | found._asdict() | _rates(board, cell, name, found.median_s))
    return rows, [cell._asdict() | sample for sample in samples.to_dict("records")]


def unmeasured(cell: Cell, names: list[str], reason: str) -> Rows:
    """The rows of a cell that could not be measured at all."""
    return [_keys(cell, name) | {"reason": reason} for name in names]


def _keys(cell: Cell, operation: str) -> dict[str, Any]:
    return {"operation": operation, "dtype": cell.dtype, "bytes": cell.bytes, "threads": 1, "reason": ""}


def _rates(board: Board, cell: Cell, operation: str, seconds: float) -> dict[str, float]:
    if not cell.bytes:
        return {"gflop_per_s": roofs.operations(board) / seconds / 1e9}
    return {"gb_per_s": roofs.ACCESSES[roofs.kind(operation)] * cell.bytes / seconds / 1e9}

"""Error of the CUDA kernels and of peers on a GPU against the exact result, as mean/std (kappa) grows.

As `backward_error`, whose rows, seeds and columns it has; only that results come from a GPU. Peers that are
compiled for each D and dtype, in seconds to minutes, come last, at `hidden` only.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from layernorm_backward import inputs
from layernorm_backward.dtypes import DtypeName
from layernorm_backward.experiments import _error_cells
from layernorm_backward.experiments._error_cells import Posed, Runner
from layernorm_backward.experiments._gpu_arguments import (
    Count,
    Distinct,
    Kappa,
    Peers,
    Positive,
    Seed,
    Several,
)
from layernorm_backward.gpu import contenders, reasons
from layernorm_backward.gpu.board import Board
from layernorm_backward.gpu.rows import Arrays, Pool
from layernorm_backward.problem import Problem, Results

REQUIRES = ("cupy", "a CUDA device")
COMPILED = ("torch_compile", "quack")
Rows = list[dict[str, Any]]


class Cell(NamedTuple):
    """Rows of one kappa and one D, in one dtype, with one kind of upstream gradient; whether it is for the
    peers that are compiled for it.
    """

    dtype: str
    kappa: float
    upstream: str
    hidden: int
    compiled: bool = False

    @property
    def keys(self) -> dict[str, Any]:
        """Those that its rows have in the table."""
        return {name: value for name, value in self._asdict().items() if name != "compiled"}


def run(
    *,
    kernels: Several[str],
    peers: Peers,
    dtypes: Several[DtypeName],
    kappas: Several[Kappa],
    hidden: Count,
    hidden_sweep: Distinct[Count],
    hidden_kappas: Distinct[Kappa],
    upstreams: Several[inputs.UpstreamKind],
    rows: Count,
    eps: Positive,
    seed: Seed,
) -> None:
    """The config: `gpu.campaign.live` measures its `cells`.

    One row a kernel or peer, dtype, kappa, upstream, D and quantity.
    """


def cells(
    *,
    kernels: list[str],
    peers: list[str],
    dtypes: list[str],
    kappas: list[float],
    hidden: int,
    hidden_sweep: list[int],
    hidden_kappas: list[float],
    upstreams: list[str],
    **_: Any,
) -> dict[Cell, list[str]]:
    """The kernels of each cell."""
    quick = [*kernels, *(name for name in peers if name not in COMPILED)]
    slow = [name for name in peers if name in COMPILED]
    all_sizes = _error_cells.cells(dtypes, kappas, hidden, hidden_sweep, hidden_kappas, upstreams)
    one_size = _error_cells.cells(dtypes, kappas, hidden, [], [], upstreams) if slow else []
    found = {Cell(**one): quick for one in all_sizes}
    return found | {Cell(**one, compiled=True): slow for one in one_size}


def measure(
    board: Board,
    pool: Pool,
    cell: Cell,
    names: Iterable[str],
    *,
    time_left: Callable[[], float],
    rows: int,
    eps: float,
    seed: int,
    **_: Any,
) -> tuple[Rows, Rows]:
    """The rows of one cell; there are no samples."""
    posed = _error_cells.pose(cell.keys, rows, eps, seed)
    if isinstance(posed, str):
        return unmeasured(cell, names, posed), []
    found: Rows = []
    for name in names:
        time_left()
        found += _rows(board, name, posed, eps)
    return found, []


def _rows(board: Board, name: str, posed: Posed, eps: float) -> Rows:
    """The rows of one kernel or peer; if it raises, the others are still measured."""
    reason = contenders.missing(name)
    if reason:
        return _error_cells.unmeasured(name, posed.cell, reason)
    lacking: dict[str, str] = {}
    try:
        rows = _error_cells.errors(Runner(name, partial(_run, board, name, lacking)), posed, eps)
    except Exception as error:
        return _error_cells.unmeasured(name, posed.cell, reasons.of(board, name, error))
    without = [
        row
        for quantity, reason in lacking.items()
        for row in _error_cells.unmeasured(name, posed.cell, reason)
        if row["quantity"] == quantity
    ]
    return [row for row in rows if row["quantity"] not in lacking] + without


def unmeasured(cell: Cell, names: Iterable[str], reason: str) -> Rows:
    """The rows of a cell that could not be measured at all."""
    return [row for name in names for row in _error_cells.unmeasured(name, cell.keys, reason)]


def _run(board: Board, name: str, lacking: dict[str, str], problem: Problem, eps: float) -> Results:
    """The results of a kernel or peer, copied to the host; those it lacks are added to `lacking`."""
    given = Arrays(*(board.array(array) for array in problem))
    contender = contenders.prepare(board, name, given, eps)
    found = contender.results()
    lacking |= {
        quantity: f"it has no pass that computes this: {contender.note}"
        for quantity, one in zip(Results._fields, found, strict=True)
        if one is None
    }
    return Results(*(_host(board, one, problem) for one in found))


def _host(board: Board, array: Any, problem: Problem) -> np.ndarray:
    """A copy on the host; NaN for a result that was not computed."""
    return np.full(problem.x.shape, np.nan, problem.x.dtype) if array is None else board.numpy(array)

"""The time of `cuda_fused` by other ways to lay threads over rows, beside that of its own table.

A way is a map of `kernels/cuda/maps.py`, and what the clusters that run at once leave to later ones. Those of
a cell run interleaved on the same inputs, each checked against float64 before; the row `table` is the way
that `cuda_fused` takes on this device. table_ratio is time(way) / time(table), roof_fraction time(fastest
stream) / time(way), both as in `timing_gpu`. threads are those of a block.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from typing import Any

from layernorm_backward.directions import Direction
from layernorm_backward.dtypes import DtypeName, dtype_of
from layernorm_backward.experiments._gpu_arguments import (
    Count,
    Distinct,
    Positive,
    Seconds,
    Seed,
    Several,
    Share,
)
from layernorm_backward.gpu import contenders, paired, warm
from layernorm_backward.gpu.board import Board
from layernorm_backward.gpu.contenders import Contender
from layernorm_backward.gpu.paired import Rows, Settings, Shape
from layernorm_backward.gpu.reasons import Refusal
from layernorm_backward.gpu.rows import Arrays, Pool
from layernorm_backward.gpu.variants import Passes
from layernorm_backward.gpu.ways import Space, Way, ways
from layernorm_backward.kernels import cuda_fused
from layernorm_backward.kernels.cuda import plan
from layernorm_backward.kernels.cuda.machine import Machine, Program, cpp
from layernorm_backward.kernels.cuda.plan import Hardware

REQUIRES = ("cupy", "a CUDA device")
TABLE = "table"


def run(
    *,
    directions: Several[Direction],
    dtypes: Several[DtypeName],
    hidden: Several[Count],
    array_bytes: Count,
    threads: Several[Count],
    resident: dict[Direction, Several[Count]],
    chunks: Several[Count],
    rows_at_once: Several[Count],
    clusters: Several[Count],
    rests: dict[Direction, Distinct[tuple[Share, Count]]],
    filled: Share,
    repeats: Count,
    at_least: Count,
    budget_s: Seconds,
    error_limit_u: dict[DtypeName, Positive],
    sums_limit_u: dict[DtypeName, Positive],
    eps: Positive,
    seed: Seed,
) -> None:
    """The config: `gpu.campaign.live` measures its `cells`, one row a way and cell."""


def cells(
    *,
    directions: Sequence[Direction],
    dtypes: Sequence[str],
    hidden: Sequence[int],
    array_bytes: int,
    **config: Any,
) -> dict[Shape, list[str]]:
    """The ways of every cell, the table's own first. ValueError where a direction has no rests."""
    found, space = {}, _space(config)
    for key, values in (("rests", space.rests), ("resident", space.resident)):
        if lacking := set(directions) - set(values):
            raise ValueError(
                f"{key}: nothing for {', '.join(sorted(lacking))}; needed: {', '.join(directions)}"
            )
    for direction, columns, dtype in product(directions, hidden, dtypes):
        rows = max(1, array_bytes // (columns * dtype_of(dtype).itemsize))
        shape = Shape(direction, dtype, dtype, rows, columns)
        found[shape] = [TABLE, *_ways(shape, space)]
    return found


def programs(hardware: Hardware, **config: Any) -> list[Program]:
    """What the ways of all cells run on a device, and the streams beside them."""
    recorder, space, shapes = warm.Recorder(hardware), _space(config), cells(**config)
    for shape in shapes:
        for way in (None, *_ways(shape, space).values()):
            with suppress(ValueError):  # it does not fit the device, as its row will say
                warm.run(
                    _passes(recorder, shape.direction, way), shape.dtype, shape.gamma_dtype, shape.hidden
                )
    return [*recorder.programs, *paired.programs(shapes)]


def measure(
    board: Board,
    pool: Pool,
    cell: Shape,
    names: Iterable[str],
    *,
    time_left: Callable[[], float],
    **config: Any,
) -> tuple[Rows, Rows]:
    """The rows of one cell, and its samples."""
    settings = Settings.of(config)
    given = pool.arrays(cell.rows, cell.hidden, cell.dtype, cell.gamma_dtype)
    results = contenders.results_for(board, given)  # of all ways in turn: they are many
    tried: dict[str, Way | None] = {TABLE: None, **_ways(cell, _space(config))}

    def prepare(name: str) -> Contender:
        passes = _passes(board.machine, cell.direction, tried[name])
        try:
            return contenders.of_passes(board, passes, given, settings.eps, "", results)
        except ValueError as error:
            if name == TABLE:
                raise
            raise Refusal(str(error)) from error

    found = paired.compared(board, given, cell, names, prepare, settings, time_left)
    tried[TABLE] = _chosen(board.machine, cell, given)
    rows = []
    for name in names:
        way = tried[name]
        row = _keys(cell, name) | (way.columns if way else {}) | {"reason": found.reasons.get(name, "")}
        if name in found.ready:
            row |= found.common | found.times(name, cell, TABLE, "table_ratio")
            row |= {"error_u_max": found.ready[name].errors["error_u_max"]}
        rows.append(row)
    return rows, [cell._asdict() | sample for sample in found.samples.to_dict("records")]


def unmeasured(cell: Shape, names: Iterable[str], reason: str) -> Rows:
    """The rows of a cell that could not be measured at all."""
    return [_keys(cell, name) | {"reason": reason} for name in names]


def _keys(cell: Shape, name: str) -> dict[str, Any]:
    return cell._asdict() | {"way": name}


def _space(config: Mapping[str, Any]) -> Space:
    return Space(**{name: config[name] for name in Space._fields})


def _ways(shape: Shape, space: Space) -> dict[str, Way]:
    found = ways(shape.direction, shape.hidden, dtype_of(shape.dtype).itemsize, space)
    return {way.text: way for way in found}


def _passes(machine: Machine, direction: Direction, way: Way | None) -> Passes:
    """Both passes; that of `direction` goes a way, or with None as the table says."""
    told = {"chosen": way.map, "rest": way.rest} if way else {}
    passes = {"forward": cuda_fused.forward, "backward": cuda_fused.backward}
    forward, backward = (
        partial(one, machine=machine, **(told if name == direction else {})) for name, one in passes.items()
    )
    return forward, backward


def _chosen(machine: Machine, cell: Shape, given: Arrays) -> Way | None:
    """The table's way; None where it has none for rows as long."""
    size = given.x.dtype.itemsize
    lie = plan.lie(cell.hidden, size, machine.address(given.x), machine.address(given.dy))
    types = (cpp(given.x.dtype), cpp(given.gamma.dtype))
    how = cuda_fused.planned(machine, cell.direction, types, cell.rows, cell.hidden, size, lie)
    return Way(how.map, how.rest) if how else None

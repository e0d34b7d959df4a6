"""The time of `cuda_fused` by other ways to lay threads over rows, beside that of its own table.

A way is a candidate mapping of threads to rows: a map of `kernels/cuda/maps.py`, and the share of rows that
the resident clusters leave to later ones. All candidates of a cell are checked against float64, then timed
interleaved on the same inputs; the row `table` is the mapping that `cuda_fused` uses on this device.
table_ratio is time(way) / time(table), roof_fraction is time(fastest stream) / time(way), both as in
`timing_gpu`. threads are per block.
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
from layernorm_backward.gpu import contenders, paired, program_cache
from layernorm_backward.gpu.board import Board
from layernorm_backward.gpu.candidates import Candidate, Space, candidates
from layernorm_backward.gpu.contenders import Contender
from layernorm_backward.gpu.paired import Rows, Settings, Shape
from layernorm_backward.gpu.reasons import Refusal
from layernorm_backward.gpu.rows import Arrays, Pool
from layernorm_backward.gpu.variants import Passes
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
    """Declares the configuration; `gpu.campaign.live` measures `cells`, one row per candidate and cell."""


def cells(
    *,
    directions: Sequence[Direction],
    dtypes: Sequence[str],
    hidden: Sequence[int],
    array_bytes: int,
    **config: Any,
) -> dict[Shape, list[str]]:
    """The candidates of every cell, `table` first. ValueError if `rests` or `resident` lacks a direction."""
    found, space = {}, _space(config)
    for key, values in (("rests", space.rests), ("resident", space.resident)):
        if lacking := set(directions) - set(values):
            raise ValueError(
                f"{key}: nothing for {', '.join(sorted(lacking))}; needed: {', '.join(directions)}"
            )
    for direction, columns, dtype in product(directions, hidden, dtypes):
        rows = max(1, array_bytes // (columns * dtype_of(dtype).itemsize))
        shape = Shape(direction, dtype, dtype, rows, columns)
        found[shape] = [TABLE, *_candidates(shape, space)]
    return found


def programs(hardware: Hardware, **config: Any) -> list[Program]:
    """The programs that the candidates of all cells launch, and those of the streams."""
    recorder, space, shapes = program_cache.Recorder(hardware), _space(config), cells(**config)
    for shape in shapes:
        for candidate in (None, *_candidates(shape, space).values()):
            with suppress(ValueError):  # it does not fit the device; its row gives the reason
                program_cache.run(
                    _passes(recorder, shape.direction, candidate),
                    shape.dtype,
                    shape.gamma_dtype,
                    shape.hidden,
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
    results = contenders.results_for(board, given)  # shared by all candidates, of which there are many
    tried: dict[str, Candidate | None] = {TABLE: None, **_candidates(cell, _space(config))}

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
        candidate = tried[name]
        row = (
            _keys(cell, name)
            | (candidate.columns if candidate else {})
            | {"reason": found.reasons.get(name, "")}
        )
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


def _candidates(shape: Shape, space: Space) -> dict[str, Candidate]:
    found = candidates(shape.direction, shape.hidden, dtype_of(shape.dtype).itemsize, space)
    return {candidate.text: candidate for candidate in found}


def _passes(machine: Machine, direction: Direction, candidate: Candidate | None) -> Passes:
    """Both passes; that of `direction` uses the candidate, or with None the mapping of the table."""
    chosen = {"chosen": candidate.map, "rest": candidate.rest} if candidate else {}
    passes = {"forward": cuda_fused.forward, "backward": cuda_fused.backward}
    forward, backward = (
        partial(one, machine=machine, **(chosen if name == direction else {})) for name, one in passes.items()
    )
    return forward, backward


def _chosen(machine: Machine, cell: Shape, given: Arrays) -> Candidate | None:
    """The mapping of the table; None where it has none for rows of this length."""
    size = given.x.dtype.itemsize
    lie = plan.lie(cell.hidden, size, machine.address(given.x), machine.address(given.dy))
    types = (cpp(given.x.dtype), cpp(given.gamma.dtype))
    how = cuda_fused.planned(machine, cell.direction, types, cell.rows, cell.hidden, size, lie)
    return Candidate(how.map, how.rest) if how else None

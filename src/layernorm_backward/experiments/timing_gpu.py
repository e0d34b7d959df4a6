"""The time of the CUDA kernels and of peers beside copy and triad, in one paired run on one GPU.

A cell is a direction, a dtype of x and one of gamma, and a shape. Its kernels, peers and streams run
interleaved on the same inputs. Passes are replays of CUDA graphs where they can be captured (`method`), so
their time includes neither Python nor autograd. The timed pass, a replay where there is one, is checked
against float64 first, on results filled with NaN before; a wrong one is not timed.

residency is "memory" where the arrays of a pass are at least four times the L2 cache: the lines that one
sample leaves dirty in the cache are written back during the next one. Else it is "cold": the cache is filled
with other data, all clean, before each sample. Samples hold the clocks just after the samples of their cell.
roof_fraction is time(fastest stream) / time(kernel), ours_ratio is time(kernel) / time(cuda_fused); both are
medians over repetitions, with a 95 % interval. threads are those of the host that launches.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from layernorm_backward.dtypes import DtypeName
from layernorm_backward.experiments import _gpu_cells
from layernorm_backward.experiments._gpu_arguments import (
    Count,
    Peers,
    Positive,
    Seconds,
    Seed,
    Several,
    Variants,
)
from layernorm_backward.gpu import contenders, paired
from layernorm_backward.gpu.board import Board
from layernorm_backward.gpu.contenders import Contender
from layernorm_backward.gpu.paired import Rows, Settings, Shape
from layernorm_backward.gpu.rows import Pool
from layernorm_backward.kernels.cuda.machine import Program
from layernorm_backward.kernels.cuda.plan import Hardware

REQUIRES = ("cupy", "a CUDA device")
OURS = "cuda_fused"


def run(
    *,
    kernels: Several[str],
    variants: Variants,
    peers: Peers,
    sets: dict[str, dict[str, Any]],
    repeats: Count,
    at_least: Count,
    budget_s: Seconds,
    error_limit_u: dict[DtypeName, Positive],
    sums_limit_u: dict[DtypeName, Positive],
    eps: Positive,
    seed: Seed,
) -> None:
    """The config: `gpu.campaign.live` measures its `cells`, one row per kernel or peer and cell."""


def cells(
    *,
    kernels: list[str],
    variants: list[str],
    peers: list[str],
    sets: Mapping[str, Mapping[str, Any]],
    **_: Any,
) -> dict[Shape, list[str]]:
    """The kernels and peers of each cell, the most important cells first."""
    return _gpu_cells.cells(sets, [*kernels, *variants, *peers])


def programs(hardware: Hardware, **config: Any) -> list[Program]:
    """The programs of the streams of all cells."""
    return paired.programs(cells(**config))


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
    absent = {name: reason for name in names if (reason := contenders.missing(name))}
    present = [name for name in names if name not in absent]
    given = pool.arrays(cell.rows, cell.hidden, cell.dtype, cell.gamma_dtype)

    def prepare(name: str) -> Contender:
        return contenders.prepare(board, name, given, settings.eps, [cell.direction])

    found = paired.compared(board, given, cell, present, prepare, settings, time_left)
    rows = _refused(cell, absent | found.reasons)
    for name, one in found.ready.items():
        facts = found.common | one.errors | {"method": one.method, "kernel": name}
        times = found.times(name, cell, OURS, "ours_ratio")
        rows.append(_keys(cell) | facts | times | _facts(one.contender))
    return rows, [_sample_keys(cell) | sample for sample in found.samples.to_dict("records")]


def unmeasured(cell: Shape, names: Iterable[str], reason: str) -> Rows:
    """The rows of a cell that could not be measured at all."""
    return _refused(cell, dict.fromkeys(names, reason))


def _refused(cell: Shape, reasons: Mapping[str, str]) -> Rows:
    return [_keys(cell) | {"kernel": name, "reason": reason} for name, reason in reasons.items()]


def _keys(cell: Shape) -> dict[str, Any]:
    return _sample_keys(cell) | {"bytes": cell.bytes}


def _sample_keys(cell: Shape) -> dict[str, Any]:
    return cell._asdict() | {"threads": 1}


def _facts(one: Contender) -> dict[str, Any]:
    facts = {"version": one.version, "note": one.note, "reason": ""}
    facts |= {"saved_bytes": float(np.nan if one.saved_bytes is None else one.saved_bytes)}
    extra = np.nan if one.saved_extra_bytes is None else one.saved_extra_bytes
    return facts | {"saved_extra_bytes": float(extra)}

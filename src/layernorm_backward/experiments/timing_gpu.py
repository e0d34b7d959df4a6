"""The time of the CUDA kernels and of peers beside copy and triad, in one paired run on one GPU.

A cell is a direction, a dtype of x and one of gamma, and a shape. Its kernels, peers and streams run
interleaved on the same inputs. Passes are replays of CUDA graphs where they can be captured (`method`), so
neither Python nor autograd is in their time. What is timed is checked against float64 first, a replay on
results that were poisoned with NaN; what is wrong is not timed.

residency is "memory" where the arrays of a pass are at least four times the L2 cache; else it is "cold": the
cache is filled with other data before each sample. roof_fraction is time(fastest stream) / time(kernel),
ours_ratio time(kernel) / time(cuda_fused); both are medians over repetitions, with a 95 % interval. threads
are those of the host that launches.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from layernorm_backward.dtypes import dtype_of
from layernorm_backward.experiments import _gpu_cells
from layernorm_backward.experiments._gpu_cells import Cell
from layernorm_backward.gpu import campaign, contenders, exact, reasons, roofs, timer
from layernorm_backward.gpu.board import Board
from layernorm_backward.gpu.contenders import Contender
from layernorm_backward.gpu.rows import Arrays, Pool
from layernorm_backward.gpu.timer import Timed
from layernorm_backward.traffic.least import TENSORS

STEM = "timing_gpu"
REQUIRES = ("cupy", "a CUDA device")
OURS = "cuda_fused"
_WARM = "its calls are timed by the host's clock, several behind each other: only the first finds an empty L2"
Rows = list[dict[str, Any]]


class _Ready(NamedTuple):
    """A contender, what is timed of it, by which method ("" for the pass as it is), and its errors."""

    contender: Contender
    timed: Timed
    method: str
    errors: dict[str, float]


def run(
    *,
    kernels: list[str],
    variants: list[str],
    peers: list[str],
    sets: dict[str, dict[str, Any]],
    repeats: int,
    at_least: int,
    budget_s: float,
    error_limit_u: dict[str, float],
    sums_limit_u: dict[str, float],
    eps: float,
    seed: int,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row a kernel or peer and cell, all cells of `sets` on the device here."""
    return campaign.live(sys.modules[__name__], locals())


def cells(
    *,
    kernels: list[str],
    variants: list[str],
    peers: list[str],
    sets: Mapping[str, Mapping[str, Any]],
    **_: Any,
) -> dict[Cell, list[str]]:
    """What is to be measured, the most important first."""
    return _gpu_cells.cells(sets, [*kernels, *variants, *peers])


def measure(
    board: Board,
    pool: Pool,
    cell: Cell,
    names: Iterable[str],
    *,
    repeats: int,
    at_least: int,
    budget_s: float,
    error_limit_u: Mapping[str, float],
    sums_limit_u: Mapping[str, float],
    eps: float,
    seed: int,
    **_: Any,
) -> tuple[Rows, Rows]:
    """The rows of one cell, and its samples."""
    keys = _keys(cell)
    given = pool.arrays(cell.rows, cell.hidden, cell.dtype, cell.gamma_dtype)
    memory = _bytes(cell) >= timer.BEYOND * board.l2_bytes
    ready: dict[str, _Ready] = {}
    rows: Rows = []
    for name in names:
        found = _checked(board, name, cell, given, eps, (error_limit_u, sums_limit_u))
        if isinstance(found, _Ready) and found.timed.wait and not memory:
            found = _WARM
        if isinstance(found, str):
            rows.append(keys | {"kernel": name, "reason": found})
        else:
            ready[name] = found
    calls = {name: one.timed for name, one in ready.items()}
    arrays = (board.xp.empty(given.x.shape, given.x.dtype), given.x, given.dy)
    streams = roofs.of(cell.direction)
    calls |= {name: Timed(board.captured(roofs.stream(board, name, *arrays))) for name in streams}
    how = {"repeats": repeats, "at_least": at_least, "budget_s": budget_s, "seed": seed}
    samples = timer.compare(board, calls, cold=not memory, **how)
    keys |= {"residency": "memory" if memory else "cold"} | _roof(samples, streams, cell)
    for name, (one, timed, method, errors) in ready.items():
        told = {"method": method or ("host clock" if timed.wait else "launched")}
        rows.append(
            keys | errors | told | {"kernel": name, **_times(samples, name, keys, cell), **_facts(one)}
        )
    return rows, [_sample_keys(cell) | sample for sample in samples.to_dict("records")]


def unmeasured(cell: Cell, names: Iterable[str], reason: str) -> Rows:
    """The rows of a cell that could not be measured at all."""
    return [_keys(cell) | {"kernel": name, "reason": reason} for name in names]


def _checked(
    board: Board, name: str, cell: Cell, given: Arrays, eps: float, limits: Sequence[Mapping[str, float]]
) -> _Ready | str:
    """A contender, where what is to be timed of it was right on these arrays; else why it is not timed."""
    reason = contenders.missing(name)
    if reason:
        return reason
    try:
        found = contenders.prepare(board, name, given, eps, [cell.direction])
        if cell.direction not in found.passes:
            return f"it has no {cell.direction} pass: {found.note}"
        timed, method = contenders.replayed(found, cell.direction)
        off = exact.errors(board.xp, given, found.results(), eps)
    except Exception as error:  # a peer may refuse in any way; the others are timed all the same
        return reasons.of(board, name, error)
    wrong = _wrong(off, cell, *limits)
    if wrong:
        return wrong
    errors = {"error_u_max": off.y}
    if cell.direction == "backward":
        errors = {"error_u_max": off.dx, "sums_error_u": _of_sums(off)}
    return _Ready(found, timed, method, errors)


def _wrong(
    off: exact.Errors, cell: Cell, error_limit_u: Mapping[str, float], sums_limit_u: Mapping[str, float]
) -> str:
    """What is over its limit in the direction of a cell; "" where nothing is."""
    error_u, sums_u = error_limit_u[cell.dtype], sums_limit_u[cell.gamma_dtype]
    judged = {"y": (off.y, error_u)}
    if cell.direction == "backward":
        judged = {"dx": (off.dx, error_u), "dgamma or dbeta": (_of_sums(off), sums_u)}
    told = [
        f"{name} is {error:.3g} u, over {limit:g} u"
        for name, (error, limit) in judged.items()
        if not error <= limit
    ]
    return f"wrong: error of {told[0]}" if told else ""


def _of_sums(off: exact.Errors) -> float:
    """The larger error of dgamma and dbeta; NaN where one of them is."""
    return float(np.maximum(off.dgamma, off.dbeta))


def _keys(cell: Cell) -> dict[str, Any]:
    return _sample_keys(cell) | {"bytes": _bytes(cell)}


def _sample_keys(cell: Cell) -> dict[str, Any]:
    return cell._asdict() | {"threads": 1}


def _bytes(cell: Cell) -> int:
    return TENSORS[cell.direction] * cell.rows * cell.hidden * dtype_of(cell.dtype).itemsize


def _roof(samples: pd.DataFrame, streams: list[str], cell: Cell) -> dict[str, Any]:
    medians = {name: timer.summary(samples, name).median_s for name in streams}
    fastest = min(medians, key=medians.__getitem__)
    return {"roof_operation": fastest, "roof_gb_per_s": _bytes(cell) / medians[fastest] / 1e9}


def _times(samples: pd.DataFrame, name: str, keys: Mapping[str, Any], cell: Cell) -> dict[str, Any]:
    found = timer.summary(samples, name)._asdict()
    found["useful_gb_per_s"] = _bytes(cell) / found["median_s"] / 1e9
    found |= timer.ratio(samples, keys["roof_operation"], name).columns("roof_fraction")
    if OURS in set(samples["name"]):
        found |= timer.ratio(samples, name, OURS).columns("ours_ratio")
    return found


def _facts(one: Contender) -> dict[str, Any]:
    facts = {"version": one.version, "note": one.note, "reason": ""}
    facts |= {"saved_bytes": float(np.nan if one.saved_bytes is None else one.saved_bytes)}
    extra = np.nan if one.saved_extra_bytes is None else one.saved_extra_bytes
    return facts | {"saved_extra_bytes": float(extra)}

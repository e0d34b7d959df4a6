"""Are the CUDA kernels right on this GPU, and the same on every run?

Results and repeats come before anything is timed; the tools, which take minutes, after all else.

    results    y, dx, dgamma, dbeta against float64 (`gpu.exact`), outputs poisoned with NaN before
    far        as results, with the first elements of every third row far from its mean: it is swept again
    apart      as results, on arrays with different offsets modulo 16 bytes; nothing is written beside them
    strided    as results, on strided, transposed and reversed arrays: a kernel copies them first, and its
               results last; nothing is written between or beside their elements
    unaligned  one array at a time is misaligned by a byte: it is refused, or its elements are copied first
    repeats    the same bits in `runs` runs, none of them NaN
    memcheck, racecheck, initcheck, synccheck
               both passes under NVIDIA's compute-sanitizer, on enough rows that each ring is refilled

value is the error, in u of the result's dtype, that is the largest fraction of its limit; or the number of
runs that differ, of arrays that were neither refused nor processed correctly, or of errors that the tool
found. A kernel that raises an error has not passed, and the error is the reason. For a check with a verdict,
the reason holds the tool's warnings.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

from layernorm_backward.dtypes import DtypeName, gamma_names
from layernorm_backward.experiments._gpu_arguments import Count, Distinct, Positive, Seed, Several
from layernorm_backward.experiments._result_checks import CHECKS, Trial
from layernorm_backward.gpu import program_cache, reasons, sanitizer, variants
from layernorm_backward.gpu.board import Board
from layernorm_backward.gpu.reasons import Transient
from layernorm_backward.gpu.rows import Pool
from layernorm_backward.gpu.tools import Pass
from layernorm_backward.kernels.cuda.machine import Program
from layernorm_backward.kernels.cuda.plan import Hardware

REQUIRES = ("cupy", "a CUDA device")
Rows = list[dict[str, Any]]

Tool = Literal["memcheck", "racecheck", "initcheck", "synccheck"]  # of compute-sanitizer


class Cell(NamedTuple):
    """A check on rows of one shape and dtype."""

    check: str
    dtype: str
    gamma_dtype: str
    rows: int
    hidden: int


def run(
    *,
    kernels: Several[str],
    dtypes: Several[DtypeName],
    hidden: Several[Count],
    rows: Several[Count],
    large: Distinct[tuple[DtypeName, Count, Count]],
    far: Distinct[Count],
    apart: Distinct[Count],
    strided: Distinct[Count],
    unaligned: Distinct[Count],
    repeated: Distinct[Count],
    tools: Distinct[Tool],
    sanitized: Distinct[tuple[DtypeName, Count, Count]],
    limits_u: dict[DtypeName, Positive],
    runs: Count,
    eps: Positive,
    seed: Seed,
) -> None:
    """The config: `gpu.campaign.live` measures its `cells`, one row per check, kernel, dtypes and shape."""


def cells(
    *,
    kernels: list[str],
    dtypes: list[str],
    hidden: list[int],
    rows: list[int],
    large: list[tuple[str, int, int]],
    far: list[int],
    apart: list[int],
    strided: list[int],
    unaligned: list[int],
    repeated: list[int],
    tools: list[str],
    sanitized: list[tuple[str, int, int]],
    **_: Any,
) -> dict[Cell, list[str]]:
    """The kernels of each cell. `large` and `sanitized` are (dtype, rows, D), for the first kernel only.

    Of the tools all look at the first of `sanitized` before any at the second.
    """
    pairs = _pairs(dtypes)
    found = {
        Cell("results", *pair, rows[number % len(rows)], size): kernels
        for pair in pairs
        for number, size in enumerate(hidden)
    }
    further = {"far": far, "apart": apart, "strided": strided, "unaligned": unaligned, "repeats": repeated}
    for check, sizes in further.items():
        found |= {Cell(check, *pair, max(rows), size): kernels for pair in pairs for size in sizes}
    found |= {Cell("results", dtype, dtype, count, size): kernels[:1] for dtype, count, size in large}
    return found | {
        Cell(tool, dtype, dtype, count, size): kernels[:1]
        for dtype, count, size in sanitized
        for tool in tools
    }


def _pairs(dtypes: list[str]) -> list[tuple[str, str]]:
    """Pairs of dtypes of x and gamma, equal ones first."""
    pairs = [(dtype, gamma_dtype) for dtype in dtypes for gamma_dtype in gamma_names(dtype)]
    return sorted(pairs, key=lambda pair: pair[0] != pair[1])


def programs(
    hardware: Hardware, *, kernels: list[str], dtypes: list[str], apart: list[int], **_: Any
) -> list[Program]:
    """The programs for arrays with different offsets modulo 16 bytes."""
    cells = [(name, *pair, size) for name in kernels for pair in _pairs(dtypes) for size in apart]
    return program_cache.needed(cells, hardware, apart=True)


def late(cell: Cell) -> bool:
    """Whether a check is a tool's: it waits until all tables are measured."""
    return cell.check in get_args(Tool)


def measure(
    board: Board,
    pool: Pool,
    cell: Cell,
    names: list[str],
    *,
    time_left: Callable[[], float],
    limits_u: dict[str, float],
    runs: int,
    eps: float,
    **_: Any,
) -> tuple[Rows, Rows]:
    """One row per kernel; there are no samples."""

    def check(name: str) -> dict[str, Any]:
        if cell.check in CHECKS:
            given = pool.arrays(cell.rows, cell.hidden, cell.dtype, cell.gamma_dtype)
            return CHECKS[cell.check](Trial(board, name, given, eps, runs, limits_u))
        what = Pass(name, "backward", cell.dtype, cell.rows, cell.hidden)
        return sanitizer.check(cell.check, what, time_left())

    return [_keys(cell, name) | _tried(board, cell, name, check) for name in names], []


def unmeasured(cell: Cell, names: list[str], reason: str) -> Rows:
    """The rows of a cell that could not be checked at all."""
    return [_keys(cell, name) | {"reason": reason} for name in names]


def _tried(board: Board, cell: Cell, name: str, check: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """The verdict of a check on a kernel; a reason where the kernel lacks the dtype, or raises an error."""
    unsupported = variants.kernel_of(name).unsupported
    if cell.dtype in unsupported:
        return {"reason": unsupported[cell.dtype]}
    try:
        return check(name)
    except Exception as error:  # the other kernels are checked all the same
        reason = reasons.of(board, name, error)
    return {"reason": reason} if isinstance(reason, Transient) else {"reason": reason, "passed": False}


def _keys(cell: Cell, name: str) -> dict[str, Any]:
    return {"kernel": name, **cell._asdict(), "reason": ""}

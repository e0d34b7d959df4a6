"""Are the CUDA kernels right on this GPU, and the same on every run?

Results and repeats come before anything is timed; the tools, which take minutes, after all else.

    results    y, dx, dgamma, dbeta against float64 (`gpu.exact`), outputs poisoned with NaN before
    far        as results, with the first elements of every third row far from its mean: it is gone over again
    apart      as results, of arrays that all begin elsewhere modulo 16 bytes; nothing is written beside them
    strided    as results, of arrays with steps between their elements, turned, and backwards: a kernel copies
               them first, and its results last; nothing is written between or beside their elements
    unaligned  one array after another lies a byte off: it is refused, or its elements have been copied first
    repeats    the same bits in `runs` runs, none of them NaN
    memcheck, racecheck, initcheck, synccheck
               both passes under NVIDIA's compute-sanitizer, on so many rows that each ring is filled again

value is the error, in u of the result's dtype, that takes most of the limit of that dtype; or the number of
runs that differ, of arrays that were neither refused nor done right, or of errors that the tool found. A
kernel that raises an error has not passed, and that is the reason. Beside a check that is passed or not, the
reason names what the tool only warns of.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from layernorm_backward.dtypes import DtypeName, dtype_of, round_to
from layernorm_backward.experiments._gpu_arguments import Count, Distinct, Positive, Seed, Several
from layernorm_backward.gpu import contenders, exact, reasons, sanitizer, variants, warm
from layernorm_backward.gpu.board import Board, unsigned
from layernorm_backward.gpu.exact import Results
from layernorm_backward.gpu.reasons import Passing
from layernorm_backward.gpu.rows import Arrays, Pool
from layernorm_backward.gpu.tools import Pass
from layernorm_backward.gpu.views import LIES, Views
from layernorm_backward.kernels.cuda.machine import Program
from layernorm_backward.kernels.cuda.plan import Hardware

OUTSIDE = "something was written beside or between the arrays"
FAR, FIRST, AWAY = slice(None, None, 3), 32, 100.0  # rows; elements, that a centre is guessed from; added
SAID = {"y": "out"}  # by which words a refusal names what has another name here
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
    """The config: `gpu.campaign.live` measures its `cells`, one row a check, kernel, dtypes and shape."""


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
    """Of x and of gamma, that is the same or wider."""
    same = [(dtype, dtype) for dtype in dtypes]
    return same + [(dtype, "float32") for dtype in dtypes if dtype_of(dtype).itemsize == 2]


def programs(
    hardware: Hardware, *, kernels: list[str], dtypes: list[str], apart: list[int], **_: Any
) -> list[Program]:
    """Those for arrays that begin apart."""
    cells = [(name, *pair, size) for name in kernels for pair in _pairs(dtypes) for size in apart]
    return warm.needed(cells, hardware, apart=True)


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
    """A row for each kernel; there are no samples."""

    def check(name: str) -> dict[str, Any]:
        if cell.check in _JUDGED:
            return _JUDGED[cell.check](board, pool, cell, name, limits_u, eps)
        if cell.check == "repeats":
            return _repeats(board, pool, cell, name, runs, eps)
        what = Pass(name, "backward", cell.dtype, cell.rows, cell.hidden)
        return sanitizer.check(cell.check, what, time_left())

    return [_keys(cell, name) | _tried(board, cell, name, check) for name in names], []


def unmeasured(cell: Cell, names: list[str], reason: str) -> Rows:
    """The rows of a cell that could not be checked at all."""
    return [_keys(cell, name) | {"reason": reason} for name in names]


def _tried(board: Board, cell: Cell, name: str, check: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """What a check says of a kernel; the reason where the kernel has no such dtype, or raises an error."""
    unsupported = variants.kernel_of(name).unsupported
    if cell.dtype in unsupported:
        return {"reason": unsupported[cell.dtype]}
    try:
        return check(name)
    except Exception as error:  # the other kernels are checked all the same
        reason = reasons.of(board, name, error)
    return {"reason": reason} if isinstance(reason, Passing) else {"reason": reason, "passed": False}


def _keys(cell: Cell, name: str) -> dict[str, Any]:
    return {"kernel": name, **cell._asdict(), "reason": ""}


def _results(
    board: Board, pool: Pool, cell: Cell, name: str, limits_u: dict[str, float], eps: float
) -> dict[str, Any]:
    given = pool.arrays(cell.rows, cell.hidden, cell.dtype, cell.gamma_dtype)
    if cell.check == "far":
        _move(board, given.x)
    found = contenders.prepare(board, name, given, eps).results()
    return _judged(board.xp, cell, given, found, limits_u, eps)


def _viewed(
    board: Board, pool: Pool, cell: Cell, name: str, limits_u: dict[str, float], eps: float
) -> dict[str, Any]:
    plain = pool.arrays(cell.rows, cell.hidden, cell.dtype, cell.gamma_dtype)
    views, lies = Views(board.xp), LIES[cell.check]
    given = views.laid(plain, lies.given)
    results = views.laid(contenders.results_for(board, plain), lies.results)
    contenders.of_passes(board, variants.passes(name, board.machine), given, eps, "", results)
    if not views.untouched():
        return {"passed": False, "reason": OUTSIDE}
    if cell.check == "strided":  # on the host: the device's own copying is not to judge itself
        return _judged(np, cell, _on_host(board, plain), _on_host(board, results), limits_u, eps)
    return _judged(board.xp, cell, plain, results, limits_u, eps)


def _unaligned(
    board: Board, pool: Pool, cell: Cell, name: str, limits_u: dict[str, float], eps: float
) -> dict[str, Any]:
    plain = pool.arrays(cell.rows, cell.hidden, cell.dtype, cell.gamma_dtype)
    forward, backward = variants.passes(name, board.machine)

    def wrong(off: str) -> str:
        """What is wrong where the array of this name lies off its place; "" for nothing."""
        views = Views(board.xp)
        results = Results(*map(contenders.poisoned, contenders.results_for(board, plain)))
        arrays = plain._asdict() | results._asdict()
        arrays[off] = views.off_place(arrays[off])
        given, results = (kind(*(arrays[key] for key in kind._fields)) for kind in (Arrays, Results))
        try:
            _, saved = forward(given.x, given.gamma, given.beta, eps, out=results.y)
            backward(given.dy, saved, out=tuple(results[1:]))
        except TypeError as error:
            if board.machine.arrays.belongs(arrays[off]) or SAID.get(off, off) not in str(error).split():
                return reasons.text(error)
            return ""
        if not views.untouched():
            return OUTSIDE
        told = _judged(np, cell, _on_host(board, plain), _on_host(board, results), limits_u, eps)
        return "" if told["passed"] else told["reason"] or f"off by {told['value']:.3g} u"

    found = {off: told for off in (*Arrays._fields, *Results._fields) if (told := wrong(off))}
    said = "; ".join(f"{off}: {told}" for off, told in found.items())
    return {"passed": not found, "value": float(len(found)), "limit": 0.0, "reason": said}


_JUDGED = {
    "results": _results,
    "far": _results,
    "apart": _viewed,
    "strided": _viewed,
    "unaligned": _unaligned,
}


def _on_host(board: Board, arrays: Any) -> Any:
    """The same arrays, in the same tuple."""
    return type(arrays)(*map(board.numpy, arrays))


def _judged(
    xp: Any, cell: Cell, given: Arrays, found: Results, limits_u: dict[str, float], eps: float
) -> dict[str, Any]:
    off = exact.errors(xp, given, found, eps)
    limits = [limits_u[cell.dtype]] * 2 + [limits_u[cell.gamma_dtype]] * 2  # y, dx; dgamma, dbeta
    worst, limit = max(zip(off, limits, strict=True), key=lambda pair: _share(*pair))
    left = "" if worst <= limit else _left(xp, found)
    return {"passed": bool(worst <= limit), "value": worst, "limit": limit, "reason": left}


def _left(xp: Any, found: Results) -> str:
    """Which results hold NaN, as all did before; "" for none."""
    names = exact.nan_in(xp, found)
    return f"NaN left in `out`: {', '.join(names)}" if names else ""


def _move(board: Board, x: Any) -> None:
    """Puts the first elements of every third row far from its mean."""
    bits = x.view(unsigned(x.dtype))
    first = board.numpy(bits[FAR, :FIRST].copy()).view(x.dtype)
    moved = round_to(first.astype(np.float64) + AWAY, x.dtype)
    bits[FAR, :FIRST] = board.array(moved.view(bits.dtype))


def _share(error: float, limit: float) -> float:
    """Of the limit; infinite for NaN."""
    return np.inf if np.isnan(error) else error / limit


def _repeats(board: Board, pool: Pool, cell: Cell, name: str, runs: int, eps: float) -> dict[str, Any]:
    given = pool.arrays(cell.rows, cell.hidden, cell.dtype, cell.gamma_dtype)
    one = contenders.prepare(board, name, given, eps)
    left = _left(board.xp, one.results())
    first = [result.view(unsigned(result.dtype)).copy() for result in one.results()]
    differing = 0
    for _ in range(runs - 1):
        for timed in one.passes.values():
            timed.call()
        again = [result.view(unsigned(result.dtype)) for result in one.results()]
        differing += not all(bool((a == b).all()) for a, b in zip(first, again, strict=True))
    return {"passed": not (differing or left), "value": float(differing), "limit": 0.0, "reason": left}

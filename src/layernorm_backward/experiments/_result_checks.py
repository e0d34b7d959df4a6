"""The checks of results in `checks_gpu`, whose docstring says what they are: each of a kernel on its arrays.

They return the columns passed, value, limit and reason.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from layernorm_backward.dtypes import round_to
from layernorm_backward.gpu import contenders, exact, variants
from layernorm_backward.gpu.board import Board, unsigned
from layernorm_backward.gpu.exact import Results
from layernorm_backward.gpu.rows import Arrays
from layernorm_backward.gpu.views import LAYOUTS, Views
from layernorm_backward.one_line import one_line

OUTSIDE = "something was written beside or between the arrays"
FAR, FIRST, AWAY = slice(None, None, 3), 32, 100.0  # rows; elements, that a centre is guessed from; added
SAID = {"y": "out"}  # by which words a refusal names what has another name here

Columns = dict[str, Any]


class Trial(NamedTuple):
    """A kernel, arrays of its own, eps, the number of runs, and the error limits in u, by dtype."""

    board: Board
    name: str
    given: Arrays
    eps: float
    runs: int
    limits_u: dict[str, float]


def results(trial: Trial) -> Columns:
    """On the given arrays."""
    found = contenders.prepare(trial.board, trial.name, trial.given, trial.eps).results()
    return _judged(trial, trial.board.xp, trial.given, found)


def far(trial: Trial) -> Columns:
    """On rows of which every third has first elements far from its mean."""
    x, board = trial.given.x, trial.board
    bits = x.view(unsigned(x.dtype))
    first = board.numpy(bits[FAR, :FIRST].copy()).view(x.dtype)
    moved = round_to(first.astype(np.float64) + AWAY, x.dtype)
    bits[FAR, :FIRST] = board.array(moved.view(bits.dtype))
    return results(trial)


def apart(trial: Trial) -> Columns:
    """On arrays that begin at different offsets modulo 16 bytes."""
    found = _viewed(trial, "apart")
    return _judged(trial, trial.board.xp, trial.given, found) if found else _failed(OUTSIDE)


def strided(trial: Trial) -> Columns:
    """On strided arrays; judged on the host, so that the device's copies are not checked by themselves."""
    found = _viewed(trial, "strided")
    return _judged_on_host(trial, found) if found else _failed(OUTSIDE)


def unaligned(trial: Trial) -> Columns:
    """With one array at a time misaligned."""
    names = (*Arrays._fields, *Results._fields)
    wrong = {off: told for off in names if (told := _wrong_misaligned(trial, off))}
    said = "; ".join(f"{off}: {told}" for off, told in wrong.items())
    return {"passed": not wrong, "value": float(len(wrong)), "limit": 0.0, "reason": said}


def repeats(trial: Trial) -> Columns:
    """In several runs, which must agree bit for bit."""
    one = contenders.prepare(trial.board, trial.name, trial.given, trial.eps)
    left = _left(trial.board.xp, one.results())
    first = [result.view(unsigned(result.dtype)).copy() for result in one.results()]
    differing = 0
    for _ in range(trial.runs - 1):
        for timed in one.passes.values():
            timed.call()
        again = [result.view(unsigned(result.dtype)) for result in one.results()]
        differing += not all(bool((a == b).all()) for a, b in zip(first, again, strict=True))
    return {"passed": not (differing or left), "value": float(differing), "limit": 0.0, "reason": left}


CHECKS: dict[str, Callable[[Trial], Columns]] = {
    check.__name__: check for check in (results, far, apart, strided, unaligned, repeats)
}


def _viewed(trial: Trial, how: str) -> Results | None:
    """The results on views; None where an element outside the views was written."""
    board, views, layouts = trial.board, Views(trial.board.xp), LAYOUTS[how]
    given = views.laid(trial.given, layouts.given)
    found = views.laid(contenders.results_for(board, trial.given), layouts.results)
    contenders.of_passes(board, variants.passes(trial.name, board.machine), given, trial.eps, "", found)
    return found if views.untouched() else None


def _wrong_misaligned(trial: Trial, off: str) -> str:
    """What is wrong when the array of this name is misaligned; "" for nothing."""
    board, views = trial.board, Views(trial.board.xp)
    forward, backward = variants.passes(trial.name, board.machine)
    results = Results(*map(contenders.poisoned, contenders.results_for(board, trial.given)))
    arrays = trial.given._asdict() | results._asdict()
    arrays[off] = views.misaligned(arrays[off])
    given, results = (kind(*(arrays[key] for key in kind._fields)) for kind in (Arrays, Results))
    try:
        _, saved = forward(given.x, given.gamma, given.beta, trial.eps, out=results.y)
        backward(given.dy, saved, out=tuple(results[1:]))
    except TypeError as error:
        if board.machine.arrays.belongs(arrays[off]) or SAID.get(off, off) not in str(error).split():
            return one_line(error)
        return ""
    if not views.untouched():
        return OUTSIDE
    found = _judged_on_host(trial, results)
    return "" if found["passed"] else found["reason"] or f"off by {found['value']:.3g} u"


def _judged_on_host(trial: Trial, found: Results) -> Columns:
    given, found = (type(them)(*map(trial.board.numpy, them)) for them in (trial.given, found))
    return _judged(trial, np, given, found)


def _judged(trial: Trial, xp: Any, given: Arrays, found: Results) -> Columns:
    off = exact.errors(xp, given, found, trial.eps)
    limit_u, sums_limit_u = (trial.limits_u[one.dtype.name] for one in (given.x, given.gamma))
    limits = (limit_u, limit_u, sums_limit_u, sums_limit_u)
    worst, limit = max(zip(off, limits, strict=True), key=lambda pair: _share(*pair))
    left = "" if worst <= limit else _left(xp, found)
    return {"passed": bool(worst <= limit), "value": worst, "limit": limit, "reason": left}


def _failed(reason: str) -> Columns:
    return {"passed": False, "reason": reason}


def _left(xp: Any, found: Results) -> str:
    """Which results still hold NaN, as all did before the run; "" for none."""
    names = exact.nan_in(xp, found)
    return f"NaN left in `out`: {', '.join(names)}" if names else ""


def _share(error: float, limit: float) -> float:
    """The error as a fraction of the limit; infinite for NaN."""
    return np.inf if np.isnan(error) else error / limit

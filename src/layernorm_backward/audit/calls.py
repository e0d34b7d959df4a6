"""Whether calls of a kernel are independent: a second run, other calls in between, unchanged inputs."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from layernorm_backward import inputs, oracle
from layernorm_backward.audit.setting import Finding, Setting
from layernorm_backward.audit.sweep import posed
from layernorm_backward.dtypes import DtypeName
from layernorm_backward.kernels import Kernel
from layernorm_backward.problem import Problem, Results, copied, run_kernel

Y_BY_BACKWARD = "y by backward"
STALE = 0.5  # relative difference above any that rounding or one row more makes


def repeatable(kernel: Kernel, dtype: DtypeName, setting: Setting) -> Finding:
    """How many of y, dx, dgamma, dbeta change on a second run, or dx, dgamma, dbeta on a second backward."""
    problem, _ = posed(dtype, 1.0, setting)
    first = [np.copy(part) for part in run_kernel(kernel, copied(problem), setting.eps)]
    given = copied(problem)
    y, saved = kernel.forward(given.x, given.gamma, given.beta, setting.eps)
    runs = [[np.copy(part) for part in kernel.backward(given.dy, saved)] for _ in range(2)]
    seconds = [Results(np.copy(y), *run) for run in runs]
    names = [
        name
        for name, *parts in zip(Results._fields, first, *seconds, strict=True)
        if len({part.tobytes() for part in parts}) > 1
    ]
    return Finding("repeatable", float(len(names)), 0.0, not names, note=", ".join(names))


def undisturbed(kernel: Kernel, dtype: DtypeName, setting: Setting) -> Finding:
    """How many of y, dx, dgamma, dbeta change where other calls run before, between and after.

    So does y where its own backward pass writes to it, under another name in the note, and each result that
    is computed from what a cache has kept of an earlier call (`_stale_by_shape`, `_stale_by_length`).
    """
    problem, _ = posed(dtype, 1.0, setting)
    given = copied(problem)
    y, saved = kernel.forward(given.x, given.gamma, given.beta, setting.eps)
    before = np.copy(y)
    alone = Results(before, *map(np.copy, kernel.backward(given.dy, saved)))
    own = [] if _same(y, before) else [Y_BY_BACKWARD]
    others = _others(problem)
    for other in reversed(others):  # the last has the shape of `problem`: a cache may return what it left
        run_kernel(kernel, other, setting.eps)
    given = copied(problem)
    y, saved = kernel.forward(given.x, given.gamma, given.beta, setting.eps)
    for other in others:
        run_kernel(kernel, other, setting.eps)
    amid = Results(y, *kernel.backward(given.dy, saved))
    for other in others:
        run_kernel(kernel, other, setting.eps)
    changed = {name for name, *pair in zip(Results._fields, alone, amid, strict=True) if not _same(*pair)}
    changed |= _stale_by_shape(kernel, problem, setting.eps) | _stale_by_length(kernel, problem, setting.eps)
    names = own + [name for name in Results._fields if name in changed and not (own and name == "y")]
    return Finding("undisturbed", float(len(names)), 0.0, not names, note=", ".join(names))


def _stale_by_shape(kernel: Kernel, problem: Problem, eps: float) -> set[str]:
    """Results for new data of a known shape that differ from those with one more row, whose dy is 0.

    The second shape is new, so that a cache by shape holds nothing for it.
    """
    x, gamma, beta, dy = _reversed(problem)
    new = copied(Problem((4 * x + 16).astype(x.dtype), gamma, beta, dy))
    longer = new._replace(x=np.concatenate([new.x, new.x[:1]]), dy=np.concatenate([dy, 0 * dy[:1]]))
    expected = [np.copy(part) for part in run_kernel(kernel, longer, eps)]
    expected[:2] = (part[: len(x)] for part in expected[:2])
    return _far_apart(run_kernel(kernel, copied(new), eps), expected)


def _stale_by_length(kernel: Kernel, problem: Problem, eps: float) -> set[str]:
    """Results that are right in the first call with rows of a new length, and far from right in the second.

    A cache by row length, of gamma for example, then holds what the first call left.
    """
    x, gamma, beta, dy = problem
    part = slice(1 + x.shape[-1] // 3)
    first = copied(Problem(x[:, part], gamma[part], beta[part], dy[:, part]))
    wrong = []
    for given in (first, _reversed(first)):
        right = [exact.hi for exact in oracle.results(*given.values(), eps)]
        wrong.append(_far_apart(run_kernel(kernel, copied(given), eps), right))
    return wrong[1] - wrong[0]


def _reversed(problem: Problem) -> Problem:
    return copied(Problem(*(-part[::-1] for part in problem)))


def _far_apart(found: Iterable[NDArray], expected: Iterable[NDArray]) -> set[str]:
    """Names of the results that differ by more than any rounding makes."""
    return {name for name, *pair in zip(Results._fields, found, expected, strict=True) if _far(*pair)}


def _far(found: NDArray, expected: NDArray) -> bool:
    found, expected = inputs.values(found), inputs.values(expected)
    return bool(np.linalg.norm(found - expected) > STALE * np.linalg.norm(expected))


def _others(problem: Problem) -> list[Problem]:
    """The rows in reverse, half as many rows, and rows half as long."""
    x, gamma, beta, dy = problem
    rows, hidden = (slice(1 + size // 2) for size in x.shape)
    found = (
        Problem(x[::-1], gamma[::-1], beta[::-1], dy[::-1]),
        Problem(x[rows], gamma, beta, dy[rows]),
        Problem(x[:, hidden], gamma[hidden], beta[hidden], dy[:, hidden]),
    )
    return [copied(part) for part in found]


def inputs_kept(kernel: Kernel, dtype: DtypeName, setting: Setting) -> Finding:
    """How many of x, gamma, beta, dy a run writes to."""
    problem, _ = posed(dtype, 1.0, setting)
    given = copied(problem)
    run_kernel(kernel, given, setting.eps)
    names = [name for name in Problem._fields if not _same(getattr(problem, name), getattr(given, name))]
    return Finding("inputs_kept", float(len(names)), 0.0, not names, note=", ".join(names))


def _same(a: NDArray, b: NDArray) -> bool:
    return a.tobytes() == b.tobytes()

"""The errors of results in one cell of a sweep over kappa: what `backward_error` measures."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from layernorm_backward import inputs, oracle
from layernorm_backward.double_double import Floats
from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of, unit_roundoff
from layernorm_backward.errors import error_u, most_over_bounds
from layernorm_backward.experiments._rows import kappa_g, kappa_mismatch
from layernorm_backward.problem import Problem, Results, draw
from layernorm_backward.theory.kernel_bounds import for_kernel

Cell = dict[str, Any]


class Runner(NamedTuple):
    """A name, and a function that gives the results for a problem and eps, or why there are none."""

    name: str
    run: Callable[[Problem, float], Results | str]


def cells(
    dtypes: Iterable[str],
    kappas: Iterable[float],
    hidden: int,
    hidden_sweep: Iterable[int],
    hidden_kappas: Iterable[float],
    upstreams: Iterable[str],
) -> list[Cell]:
    """A sweep of kappa at one D, then of D at a few kappas, for each dtype and upstream gradient."""
    grid = [(kappa, hidden) for kappa in kappas]
    grid += [(kappa, size) for size in hidden_sweep for kappa in hidden_kappas]
    return [
        {"dtype": dtype, "kappa": kappa, "upstream": upstream, "hidden": size}
        for dtype in dtypes
        for kappa, size in dict.fromkeys(grid)
        for upstream in upstreams
    ]


class Posed(NamedTuple):
    """A cell, with kappa_g among its columns, its problem, and the exact results and moments."""

    cell: Cell
    problem: Problem
    exact: oracle.Results
    moments: oracle.Moments


def measure(runners: Iterable[Runner], cell: Cell, rows: int, eps: float, seed: int) -> list[Cell]:
    """One row per runner and quantity."""
    posed = pose(cell, rows, eps, seed)
    if isinstance(posed, str):
        return [record for runner in runners for record in unmeasured(runner.name, cell, posed)]
    return [record for runner in runners for record in errors(runner, posed, eps)]


def pose(cell: Cell, rows: int, eps: float, seed: int) -> Posed | str:
    """The problem of a cell, or why there is nothing to test."""
    rng = inputs.generator(seed, DTYPE_NAMES.index(cell["dtype"]), cell["hidden"])
    mean = inputs.mean_of_kappa(cell["kappa"])
    x = inputs.rows(rng, rows, cell["hidden"], dtype_of(cell["dtype"]), mean=mean)
    moments = oracle.moments(inputs.values(x))
    missing = kappa_mismatch(moments, cell["kappa"], cell["dtype"])
    if missing:
        return missing
    problem = draw(rng, x, cell["upstream"], "random")
    exact = oracle.results(*problem.values(), eps)
    return Posed(cell | {"kappa_g": _kappa_g(problem, moments, exact.dx.hi, eps)}, problem, exact, moments)


def unmeasured(name: str, cell: Cell, reason: str) -> list[Cell]:
    """The rows of a runner that has no results in a cell."""
    common = cell | {"kernel": name, "kappa_g": np.nan, "reason": reason}
    return [common | {"quantity": quantity} for quantity in Results._fields]


def errors(runner: Runner, posed: Posed, eps: float) -> list[Cell]:
    """One row per quantity of one runner."""
    cell, problem, exact, moments = posed
    computed = runner.run(problem, eps)
    if isinstance(computed, str):
        return unmeasured(runner.name, cell, computed)
    limits = for_kernel(runner.name, problem, moments, eps)
    found = zip(Results._fields, computed, exact, limits, strict=True)
    return [
        cell
        | {"kernel": runner.name, "quantity": quantity, "reason": ""}
        | _summary(error_u(result, truth), limit / unit_roundoff(result.dtype))
        for quantity, result, truth, limit in found
    ]


def _summary(error: Floats, limit: Floats) -> dict[str, float]:
    return {
        "error_u_median": float(np.median(error)),
        "error_u_max": float(np.max(error)),
        "bound_u": float(np.max(limit)),
        "bound_ratio_max": most_over_bounds(error, limit),
    }


def _kappa_g(problem: Problem, moments: oracle.Moments, dx: Floats, eps: float) -> float:
    _, gamma, _, dy = problem.values()
    return kappa_g(gamma * dy, np.sqrt(moments.variance.hi + eps), dx)

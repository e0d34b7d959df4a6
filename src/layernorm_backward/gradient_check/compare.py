"""Comparisons of a kernel at a point: every element, random directions, or some rows of a large tensor."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import layernorm_backward.gradient_check.tolerance as allowed
from layernorm_backward.derivations.gradients import Gradients
from layernorm_backward.gradient_check.comparison import Comparison
from layernorm_backward.gradient_check.differences import (
    Difference,
    along,
    by_column,
    differences,
    of_loss,
    predicted,
)
from layernorm_backward.gradient_check.methods import Method
from layernorm_backward.gradient_check.points import Point
from layernorm_backward.inputs import values
from layernorm_backward.kernels.reference import forward_equations
from layernorm_backward.portable import norm

Forward = Callable[..., NDArray]
PARAMETERS = ("gamma", "beta")


class Setting(NamedTuple):
    """A forward pass (x, gamma, beta) -> y at a point, and the method that differentiates it.

    step: in units of x (and of gamma, beta), or None for the best of every row by the error model.
    """

    forward: Forward
    point: Point
    eps: float
    method: Method
    step: float | None


def outputs(forward: Callable[..., tuple], eps: float, method: Method) -> Forward:
    """(x, gamma, beta) -> y: the kernel's own, or, for a complex step, the paper's equations (1) to (5)."""
    if method.imaginary:
        return lambda x, gamma, beta: forward_equations(_wide(x), _wide(gamma), _wide(beta), eps).y
    return lambda x, gamma, beta: forward(x, gamma, beta, eps)[0]


def _wide(array: NDArray) -> NDArray:
    return array if np.iscomplexobj(array) else values(array)


def full(at: Setting, analytic: Gradients) -> list[Comparison]:
    """Every element of dx, dgamma and dbeta."""
    found, point, method = allowed.model(at.point, at.eps), at.point, at.method
    results = []
    for name in ("x", *PARAMETERS):
        step, limit = _step_and_tolerance(name, found, at)
        start = getattr(point, name)
        slope = (
            partial(of_loss, dy=point.dy)
            if method.of_loss
            else partial(by_column, dy=point.dy, method=method)
        )
        numeric = slope(_only(at, name), start, step)
        count = method.points * (start.size if method.of_loss else start.shape[-1])
        exact = values(getattr(analytic, f"d{name}"))
        results.append(Comparison(f"d{name}", "full", exact, numeric, limit, count))
    return results


class Directions(NamedTuple):
    """Differences along random directions in one of x, gamma, beta, and the tolerance of each direction."""

    name: str
    terms: list[list[Difference]]
    tolerance: NDArray[np.float64]


def directions(at: Setting, analytic: Gradients, count: int, rng: np.random.Generator) -> list[Comparison]:
    """`count` directions of random signs in each of x, gamma, beta; these show leaks between rows."""
    return with_directions(at, random_directions(at, count, rng), analytic)


def random_directions(at: Setting, count: int, rng: np.random.Generator) -> list[Directions]:
    """The differences with which `directions` compares gradients."""
    found, point = allowed.model(at.point, at.eps), at.point
    results = []
    for name in ("x", *PARAMETERS):
        step, limit = _step_and_tolerance(name, found, at)
        start = getattr(point, name)
        signs = rng.choice([-1.0, 1.0], size=(count, *start.shape))
        moves = (sign * np.asarray(step)[..., None] for sign in signs)
        terms = [list(differences(_only(at, name), start, move, at.method)) for move in moves]
        results.append(Directions(name, terms, np.full(count, norm(step * limit))))
    return results


def with_directions(at: Setting, chosen: list[Directions], analytic: Gradients) -> list[Comparison]:
    """Analytic gradients compared with differences along directions."""
    results = []
    for name, terms, tolerance in chosen:
        slope = getattr(analytic, f"d{name}")
        expected = np.reshape([predicted(part, slope) for part in terms], (-1, 1))
        numeric = np.reshape([along(part, at.point.dy) for part in terms], (-1, 1))
        evaluations = len(terms) * at.method.points
        results.append(Comparison(f"d{name}", "directions", expected, numeric, tolerance, evaluations))
    return results


class Spot(NamedTuple):
    """Some rows or elements of one gradient: (k, n) of its (rows, D) or (1, D), selected by `index`.

    numeric: their finite differences (k, n); tolerance: of each (k,).
    """

    name: str
    scope: str
    index: tuple[NDArray, ...]
    numeric: NDArray[np.float64]
    tolerance: NDArray[np.float64]
    evaluations: int


def rows(at: Setting, analytic: Gradients, count: int, rng: np.random.Generator) -> list[Comparison]:
    """dx of `count` rows drawn at random."""
    return with_spots([some_rows(at, count, rng)], analytic)


def some_rows(at: Setting, count: int, rng: np.random.Generator) -> Spot:
    """`count` rows of dx: only these rows are evaluated, since no other row affects their gradient."""
    hidden = at.point.x.shape[-1]
    total = at.point.x.size // hidden
    drawn = np.sort(rng.choice(total, size=min(count, total), replace=False))
    local, step, limit = _of_rows(at, drawn)
    numeric = by_column(_only(local, "x"), local.point.x, step, local.point.dy, at.method)
    return Spot("dx", "rows", (drawn,), numeric, limit, at.method.points * hidden)


def some_elements(at: Setting, count: int, rng: np.random.Generator) -> list[Spot]:
    """`count` elements of each of dx, dgamma, dbeta; those of dx from their rows alone, as in `some_rows`."""
    hidden, points = at.point.x.shape[-1], at.method.points
    drawn = rng.choice(at.point.x.size, size=min(count, at.point.x.size), replace=False)
    row, column = np.divmod(drawn, hidden)
    local, step, limit = _of_rows(at, row)
    which = (np.arange(len(row)), column)
    numeric = _slopes(local, "x", which, step, axis=-1)
    spots = [Spot("dx", "elements", (row, column), numeric, limit, points)]
    found = allowed.model(at.point, at.eps)
    for name in PARAMETERS:
        column = rng.choice(hidden, size=min(count, hidden), replace=False)
        step, limit = _step_and_tolerance(name, found, at)
        numeric = _slopes(at, name, (column,), step, axis=tuple(range(at.point.dy.ndim - 1)))
        index = (np.zeros_like(column), column)
        spots.append(Spot(f"d{name}", "elements", index, numeric, np.full(len(column), limit), points))
    return spots


def with_spots(spots: list[Spot], analytic: Gradients) -> list[Comparison]:
    """Analytic gradients compared with differences at the spots."""
    results = []
    for name, scope, index, numeric, tolerance, evaluations in spots:
        slope = values(getattr(analytic, name))
        chosen = slope.reshape(-1, slope.shape[-1])[index].reshape(len(tolerance), -1)
        numeric = numeric.reshape(chosen.shape)
        results.append(Comparison(name, scope, chosen, numeric, tolerance, evaluations))
    return results


def tolerances(at: Setting) -> Gradients:
    """The tolerances of every row of dx (...,), and of dgamma and dbeta ()."""
    found = allowed.model(at.point, at.eps)
    return Gradients(*(_step_and_tolerance(name, found, at)[1] for name in ("x", *PARAMETERS)))


def _of_rows(at: Setting, drawn: NDArray) -> tuple[Setting, NDArray, NDArray]:
    """The setting of some rows alone, with their steps and tolerances."""
    x, dy = (part.reshape(-1, part.shape[-1])[drawn] for part in (at.point.x, at.point.dy))
    local = at._replace(point=at.point._replace(x=x, dy=dy))
    return local, *_step_and_tolerance("x", allowed.model(local.point, at.eps), local)


def _slopes(at: Setting, name: str, which: tuple, step: NDArray, axis: int | tuple[int, ...]) -> NDArray:
    """d sum(dy * y) / d element, for elements of one argument that affect disjoint parts of y, together."""
    start = getattr(at.point, name)
    move = np.zeros(start.shape)
    move[which] = step
    terms = differences(_only(at, name), start, move, at.method)
    column = which[-1:] if name != "x" else slice(None)
    return sum(t.weight * (values(at.point.dy) * t.rise).sum(axis=axis)[column] / t.run[which] for t in terms)


def _only(at: Setting, name: str) -> Callable[[NDArray], NDArray]:
    """y as a function of one of x, gamma, beta."""
    fixed = {"x": at.point.x, "gamma": at.point.gamma, "beta": at.point.beta}
    return lambda moved: at.forward(**(fixed | {name: moved}))


def _step_and_tolerance(name: str, found: allowed.Model, at: Setting) -> tuple[NDArray, NDArray]:
    """Step and tolerance: for x per row, shape (...,); for a parameter shape ()."""
    if name == "x":
        best = allowed.best_step(found, at.method)
        step = best if at.step is None else np.full_like(best, at.step)
        return step, allowed.dx_tolerance(found, at.method, step)
    best = allowed.IMAGINARY_STEP if at.method.imaginary else allowed.PARAMETER_STEP
    step = best if at.step is None else at.step
    return np.float64(step), np.float64(allowed.parameter_tolerance(found, at.method, step))

"""The comparisons of a kernel at a point: every element, random directions, rows out of a large tensor."""

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
    """A forward pass (x, gamma, beta) -> y at a point, and how it is to be differentiated.

    step: a float in units of x (and of gamma, beta), or None for the best of every row by the error model.
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


class Moved(NamedTuple):
    """Differences along random directions in one of x, gamma, beta, and the tolerance of each direction."""

    name: str
    terms: list[list[Difference]]
    tolerance: NDArray[np.float64]


def directions(at: Setting, analytic: Gradients, count: int, rng: np.random.Generator) -> list[Comparison]:
    """`count` directions of random signs in x, in gamma, in beta; this sees what leaks between rows."""
    return beside(at, moved(at, count, rng), analytic)


def moved(at: Setting, count: int, rng: np.random.Generator) -> list[Moved]:
    """The differences that `directions` compares gradients with."""
    found, point = allowed.model(at.point, at.eps), at.point
    results = []
    for name in ("x", *PARAMETERS):
        step, limit = _step_and_tolerance(name, found, at)
        start = getattr(point, name)
        signs = rng.choice([-1.0, 1.0], size=(count, *start.shape))
        moves = (sign * np.asarray(step)[..., None] for sign in signs)
        terms = [list(differences(_only(at, name), start, move, at.method)) for move in moves]
        results.append(Moved(name, terms, np.full(count, norm(step * limit))))
    return results


def beside(at: Setting, moves: list[Moved], analytic: Gradients) -> list[Comparison]:
    """What gradients predict for the moves, beside the differences."""
    results = []
    for name, terms, tolerance in moves:
        slope = getattr(analytic, f"d{name}")
        expected = np.reshape([predicted(part, slope) for part in terms], (-1, 1))
        numeric = np.reshape([along(part, at.point.dy) for part in terms], (-1, 1))
        evaluations = len(terms) * at.method.points
        results.append(Comparison(f"d{name}", "directions", expected, numeric, tolerance, evaluations))
    return results


def rows(at: Setting, analytic: Gradients, count: int, rng: np.random.Generator) -> list[Comparison]:
    """dx of `count` rows drawn at random: only they are evaluated, their gradient is that of the whole."""
    hidden = at.point.x.shape[-1]
    total = at.point.x.size // hidden
    drawn = np.sort(rng.choice(total, size=min(count, total), replace=False))
    x, dy, dx = (part.reshape(-1, hidden)[drawn] for part in (at.point.x, at.point.dy, analytic.dx))
    local = at._replace(point=at.point._replace(x=x, dy=dy))
    step, limit = _step_and_tolerance("x", allowed.model(local.point, at.eps), local)
    numeric = by_column(_only(local, "x"), x, step, dy, at.method)
    return [Comparison("dx", "rows", values(dx), numeric, limit, at.method.points * hidden)]


def _only(at: Setting, name: str) -> Callable[[NDArray], NDArray]:
    """y as a function of one of x, gamma, beta."""
    fixed = {"x": at.point.x, "gamma": at.point.gamma, "beta": at.point.beta}
    return lambda moved: at.forward(**(fixed | {name: moved}))


def _step_and_tolerance(name: str, found: allowed.Model, at: Setting) -> tuple[NDArray, NDArray]:
    """For x of every row, shape (...,); for a parameter of shape ()."""
    if name == "x":
        best = allowed.best_step(found, at.method)
        step = best if at.step is None else np.full_like(best, at.step)
        return step, allowed.dx_tolerance(found, at.method, step)
    best = allowed.IMAGINARY_STEP if at.method.imaginary else allowed.PARAMETER_STEP
    step = best if at.step is None else at.step
    return np.float64(step), np.float64(allowed.parameter_tolerance(found, at.method, step))

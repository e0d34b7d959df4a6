"""`check(kernel)`: a gradient check that compares, judges, and reports the failing values."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import layernorm_backward.gradient_check.compare as compare
from layernorm_backward.derivations.gradients import Gradients
from layernorm_backward.gradient_check.comparison import Comparison
from layernorm_backward.gradient_check.datasets import adequate
from layernorm_backward.gradient_check.methods import METHODS
from layernorm_backward.gradient_check.points import Point, frozen
from layernorm_backward.kernels import Kernel

EPS = 1e-5  # for a pair of functions, which has no default_eps
METHOD, DIRECTIONS, SEED = "central6", 4, 0  # defaults of `check`, and of `rules.ours`


class GradientError(AssertionError):
    """A gradient that is not the derivative of its forward pass; the values are also attributes."""

    def __init__(self, comparison: Comparison) -> None:
        self.quantity, self.scope = comparison.quantity, comparison.scope
        self.index = comparison.worst()
        unit = self.index[:-1]
        self.analytic = float(comparison.analytic[self.index])
        self.numeric = float(comparison.numeric[self.index])
        self.error, self.tolerance = float(comparison.errors[unit]), float(comparison.tolerance[unit])
        super().__init__(
            f"{self.quantity} ({self.scope}) is wrong at {self.index}: analytic {self.analytic!r}, numeric "
            f"{self.numeric!r}; the 2-norm of the error is {self.error:.3g}, allowed {self.tolerance:.3g}; "
            f"{comparison.failed.sum()} of {comparison.failed.size} failed"
        )


def check(
    kernel: Kernel | tuple[Callable[..., Any], Callable[..., Any]],
    point: Point | None = None,
    *,
    shape: tuple[int, ...] = (4, 8, 16),
    dtype: str = "float64",
    eps: float | None = None,
    method: str = METHOD,
    step: float | None = None,
    seed: int = SEED,
    tolerance: float | None = None,
    directions: int = DIRECTIONS,
    spot_rows: int = 8,
    full_limit: int = 100_000,
    raise_on_failure: bool = True,
) -> pd.DataFrame:
    """Compare a backward pass with finite differences of its forward pass.

    kernel: a Kernel, or a pair (forward, backward) with the signatures of one. point: x, gamma, beta, dy;
    by default `datasets.adequate` of `shape`, `dtype`, `seed`. The kernel gets read-only copies of it.
    step: in units of x; by default the best of every row. tolerance: the largest relative error (2-norm)
    of a row; by default that of the error model. The method complex_step differentiates the paper's forward
    pass, since a kernel's takes no complex numbers.

    Returns one row per quantity (dx, dgamma, dbeta) and scope: `full` and `directions`; where x has more
    than `full_limit` elements, `rows` (`spot_rows` of them) and `directions`. Raises GradientError for the
    first failure if `raise_on_failure`, ValueError for an unknown method or a gradient of the wrong shape.
    """
    forward, backward = (kernel.forward, kernel.backward) if isinstance(kernel, Kernel) else kernel
    eps = getattr(kernel, "default_eps", EPS) if eps is None else eps
    chosen = _method(method)
    at = frozen(adequate(shape, eps, seed, dtype) if point is None else Point(*point))
    setting = compare.Setting(compare.outputs(forward, eps, chosen), at, eps, chosen, step)
    analytic = gradients(forward, backward, at, eps)
    with np.errstate(divide="ignore", invalid="ignore"):
        rng = np.random.default_rng(seed)
        if at.x.size > full_limit:
            found = compare.rows(setting, analytic, spot_rows, rng)
        else:
            found = compare.full(setting, analytic)
        found += compare.directions(setting, analytic, directions, rng)
        found = [_relative(comparison, tolerance) for comparison in found]
        failures = [comparison for comparison in found if comparison.failed.any()]
        if failures and raise_on_failure:
            raise GradientError(failures[0])
        return pd.DataFrame([_row(comparison, setting) for comparison in found])


def gradients(
    forward: Callable[..., Any], backward: Callable[..., Any], point: Point, eps: float
) -> Gradients:
    """The kernel's gradients; ValueError where one does not have the shape of its argument."""
    _, saved = forward(point.x, point.gamma, point.beta, eps)
    found = Gradients(*backward(point.dy, saved))
    for name, values, argument in zip(found._fields, found, point[:3], strict=True):
        if np.shape(values) != argument.shape:
            raise ValueError(f"{name} has shape {np.shape(values)}; allowed: {argument.shape}")
    return found


def _method(name: str) -> Any:
    if name not in METHODS:
        raise ValueError(f"unknown method {name!r}; allowed: {', '.join(METHODS)}")
    return METHODS[name]


def _relative(comparison: Comparison, tolerance: float | None) -> Comparison:
    if tolerance is None:
        return comparison
    return comparison._replace(tolerance=tolerance * np.linalg.norm(comparison.numeric, axis=-1))


def _row(comparison: Comparison, at: compare.Setting) -> dict[str, Any]:
    used = np.max(comparison.errors / comparison.tolerance, initial=0.0)
    return {
        "method": at.method.name,
        "shape": "x".join(map(str, at.point.x.shape)),
        "quantity": comparison.quantity,
        "scope": comparison.scope,
        **comparison.measures(),
        "error_over_tolerance": float(used),
        "evaluations": comparison.evaluations,
        "passed": not comparison.failed.any(),
    }

"""A layer-normalization problem, and a run of a kernel on it, forward and backward."""

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from layernorm_backward import inputs
from layernorm_backward.double_double import Floats
from layernorm_backward.kernels import Kernel


class Problem(NamedTuple):
    """x, dy (..., D) and gamma, beta (D,), rounded to their dtypes."""

    x: NDArray
    gamma: NDArray
    beta: NDArray
    dy: NDArray

    def values(self) -> tuple[Floats, Floats, Floats, Floats]:
        """The same numbers in float64, in the order of the oracle's parameters."""
        return tuple(inputs.values(array) for array in self)


class Results(NamedTuple):
    """What a kernel returns: y, dx (..., D) and dgamma, dbeta (D,)."""

    y: NDArray
    dx: NDArray
    dgamma: NDArray
    dbeta: NDArray


def draw(
    rng: np.random.Generator, x: NDArray, upstream: str, gamma_kind: str, gamma_dtype: DTypeLike = None
) -> Problem:
    """A problem with rows x (..., D) and random gamma, beta and dy; gamma_dtype is x's by default."""
    hidden, beside = x.shape[-1], x.dtype if gamma_dtype is None else gamma_dtype
    gamma = inputs.gamma(rng, gamma_kind, hidden, beside)
    beta = inputs.beta(rng, hidden, beside)
    return Problem(x, gamma, beta, inputs.upstream(rng, upstream, x))


def draw_aligned(rng: np.random.Generator, x: NDArray, spread: float) -> Problem:
    """A problem with rows x (..., D), gamma 1, beta 0 and dy from `inputs.aligned`, all in x's dtype."""
    gamma = inputs.gamma(rng, "uniform", x.shape[-1], x.dtype)
    return Problem(x, gamma, np.zeros_like(gamma), inputs.aligned(rng, x, spread))


def copied(problem: Problem) -> Problem:
    """A copy whose arrays a kernel may overwrite."""
    return Problem(*(array.copy() for array in problem))


def run_kernel(kernel: Kernel, problem: Problem, eps: float) -> Results:
    """The results of the forward pass, then the backward pass."""
    y, saved = kernel.forward(problem.x, problem.gamma, problem.beta, eps)
    return Results(y, *kernel.backward(problem.dy, saved))

"""The data sets on which gradient checks are compared: rows x gamma x upstream gradient.

Each choice hides some faults and reveals others. A gamma of ones (with beta 0, as a layer is initialised)
hides a missing gamma; a zero mean of g hides the term mean(g); a wrong eps shows only where the variance is
near eps.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward import inputs
from layernorm_backward.dtypes import dtype_of, round_to, unit_roundoff
from layernorm_backward.gradient_check.points import Point
from layernorm_backward.inputs import values
from layernorm_backward.kernels.reference import forward_equations

OFFSET = 1e3  # mean/std of the rows that are far from zero
ROWS = ("normal", "offset", "near_eps", "mixed")
GAMMAS = ("uniform", "random")
UPSTREAMS = ("zero_mean", "normal", "shifted", "squared_loss")


class DataSet(NamedTuple):
    """`rows`: N(0,1), offset by OFFSET, of variance eps, or the three in turn; `gamma`: ones with beta 0,
    or random with beta random; `upstream`: mean(g) zero in every row, N(0,1), N(1,1), or y, the gradient
    of the loss sum(y^2)/2."""

    rows: str
    gamma: str
    upstream: str

    @property
    def name(self) -> str:
        return " ".join(self)


DEFAULT = DataSet("mixed", "random", "shifted")  # the smallest set that suffices; computed in mutation_cover


def point(data: DataSet, shape: tuple[int, ...], eps: float, seed: int, dtype: str = "float64") -> Point:
    """x, gamma, beta, dy of a data set, rounded to `dtype`; ValueError lists the valid kinds."""
    for value, allowed in zip(data, (ROWS, GAMMAS, UPSTREAMS), strict=True):
        if value not in allowed:
            raise ValueError(f"unknown kind {value!r} in {data.name!r}; allowed: {', '.join(allowed)}")
    rng, kind = inputs.generator(seed, *shape), dtype_of(dtype)
    x = round_to(_rows(rng, data.rows, shape, eps, kind), kind)
    noise = rng.standard_normal(shape)
    gamma = inputs.gamma(rng, data.gamma, shape[-1], kind)
    beta = inputs.beta(rng, shape[-1], kind)
    if data.gamma == "uniform":
        beta = np.zeros_like(beta)
    dy = _upstream(data.upstream, noise, Point(x, gamma, beta, noise), eps)
    return Point(x, gamma, beta, round_to(dy, kind))


def _rows(rng: np.random.Generator, rows: str, shape: tuple[int, ...], eps: float, kind: np.dtype) -> NDArray:
    """16-bit rows have a smaller offset, u**-1/2 deviations, so that their variation survives rounding."""
    far = min(OFFSET, unit_roundoff(kind) ** -0.5)
    x = rng.standard_normal((math.prod(shape[:-1]), shape[-1]))
    if rows in ("near_eps", "mixed"):
        x[slice(1, None, 4) if rows == "mixed" else slice(None)] *= math.sqrt(eps)
    if rows in ("offset", "mixed"):
        x[slice(2, None, 4) if rows == "mixed" else slice(None)] += far
    return x.reshape(shape)


def _upstream(upstream: str, noise: NDArray, at: Point, eps: float) -> NDArray:
    if upstream == "shifted":
        return 1.0 + noise
    if upstream == "zero_mean":
        gamma = values(at.gamma)
        return noise - gamma * (gamma * noise).mean(axis=-1, keepdims=True) / (gamma * gamma).mean()
    if upstream == "squared_loss":
        return forward_equations(*(values(part) for part in at[:3]), eps).y
    return noise


def adequate(shape: tuple[int, ...], eps: float, seed: int, dtype: str = "float64") -> Point:
    """The smallest data set that reveals all known faults, with the largest margin: DEFAULT.

    Rows in turn: N(0,1); variance eps, which distinguishes one use of eps from another; mean far from zero,
    which reveals statistics of low precision; N(0,1). gamma is random, since gamma = 1 hides a missing or
    misplaced gamma; dy is N(1,1), since a zero mean(g) hides the term mean(g).
    """
    return point(DEFAULT, shape, eps, seed, dtype)

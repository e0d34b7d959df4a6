"""Test data: seeded rows of a given mean, upstream gradients and gamma, each already rounded to its dtype.

Kernels get the rounded arrays, and the oracle gets the same numbers in float64 (`values`), so the rounding of
the data is never counted as an error of an algorithm.
"""

from typing import Literal, get_args

import numpy as np
from numpy.typing import DTypeLike, NDArray

from layernorm_backward.dtypes import round_to

UpstreamKind = Literal["normal", "shifted", "correlated"]
GammaKind = Literal["uniform", "random"]


def generator(seed: int, *cell: int) -> np.random.Generator:
    """A generator for one cell of a sweep, independent of the other cells and of their order."""
    return np.random.default_rng([seed, *cell])


def values(array: NDArray) -> NDArray[np.float64]:
    """The same numbers in float64, which represents all four dtypes exactly."""
    return np.asarray(array).astype(np.float64)


def rows(
    rng: np.random.Generator,
    count: int,
    hidden: int,
    dtype: DTypeLike,
    *,
    mean: float = 0.0,
    std: float = 1.0,
) -> NDArray:
    """Gaussian rows (count, hidden) with the given mean and standard deviation, rounded to `dtype`."""
    return round_to(mean + std * rng.standard_normal((count, hidden)), dtype)


def mean_of_kappa(kappa: float) -> float:
    """The mean that gives rows of unit variance the condition number kappa = sqrt(1 + mean^2/var)."""
    if not kappa >= 1:
        raise ValueError(f"kappa is {kappa}; allowed: at least 1, since kappa = sqrt(1 + mean^2/var)")
    return float(np.sqrt((kappa - 1) * (kappa + 1)))


def ladder(offset: float, dtype: DTypeLike) -> NDArray:
    """The row offset + [0, 1, 2, 3, 4], shape (1, 5), rounded to `dtype`; its exact variance is 2."""
    return round_to(offset + np.arange(5.0)[None, :], dtype)


def upstream(rng: np.random.Generator, kind: str, x: NDArray) -> NDArray:
    """Upstream gradients dy, shape and dtype of x (..., D): N(0,1), N(1,1), or correlated with x.

    A zero-mean dy hides the effect of a rounded mean on dx, hence `shifted`; `correlated` is
    (x_hat + N(0,1))/sqrt(2), which makes mean(g*x_hat) about 0.7.
    """
    noise = rng.standard_normal(x.shape)
    if kind == "normal":
        return round_to(noise, x.dtype)
    if kind == "shifted":
        return round_to(1.0 + noise, x.dtype)
    if kind == "correlated":
        return round_to((_standardised(values(x)) + noise) / np.sqrt(2.0), x.dtype)
    raise ValueError(
        f"unknown kind of upstream gradient {kind!r}; allowed: {', '.join(get_args(UpstreamKind))}"
    )


def aligned(rng: np.random.Generator, x: NDArray, spread: float) -> NDArray:
    """dy = 1 + x_hat + spread*N(0,1): with gamma = 1, dx keeps only the part of size `spread`."""
    noise = rng.standard_normal(x.shape)
    return round_to(1.0 + _standardised(values(x)) + spread * noise, x.dtype)


def gamma(rng: np.random.Generator, kind: str, hidden: int, dtype: DTypeLike) -> NDArray:
    """gamma, shape (hidden,): all ones, or N(1, 1/4); with a zero mean, mean(g) would vanish."""
    if kind == "uniform":
        return round_to(np.ones(hidden), dtype)
    if kind == "random":
        return round_to(1.0 + 0.5 * rng.standard_normal(hidden), dtype)
    raise ValueError(f"unknown kind of gamma {kind!r}; allowed: {', '.join(get_args(GammaKind))}")


def beta(rng: np.random.Generator, hidden: int, dtype: DTypeLike) -> NDArray:
    """beta, shape (hidden,), from N(0,1)."""
    return round_to(rng.standard_normal(hidden), dtype)


def _standardised(x: NDArray[np.float64]) -> NDArray[np.float64]:
    centred = x - x.mean(axis=-1, keepdims=True)
    std = np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True))
    return centred / np.where(std > 0, std, 1.0)

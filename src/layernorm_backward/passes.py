"""Forward and backward pass in NumPy, with each algorithm for the mean and the variance of a row.

Every operation is one NumPy operation, rounded to the accumulator dtype. Sums are binary trees (`tree_sum`)
unless the algorithm defines its own. Results are rounded to the storage dtype once, at the end. So the
algorithms differ only in mean, variance, and what is subtracted from x. One with the name of a variance
algorithm (`variance`) uses its mean and its variance. The others:

    recentred            z = x - m; z -= mean(z); var = mean(z^2)                                equation (13)
    recentred_sums       z = x - m, delta = mean(z); var = mean(z^2) - delta^2; z - delta        equation (14)
    float64_mean         the mean summed in float64, then rounded to the accumulator; two-pass variance
    float64_statistics   mean, x - mean and variance in float64; x - mean and rstd then rounded
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from layernorm_backward.dtypes import round_to
from layernorm_backward.problem import Problem, Results
from layernorm_backward.sums import tree_sum
from layernorm_backward.variance import ALGORITHMS as VARIANCE_ALGORITHMS
from layernorm_backward.variance import count


class Centred(NamedTuple):
    """Rows z (N, D) less their mean, and the variance (N,), in the accumulator dtype (variance: or float64).

    mean and shift (N,) were subtracted from x in this order; their sum would be rounded, so both are kept.
    """

    z: NDArray
    variance: NDArray
    mean: NDArray
    shift: NDArray


class Statistics(NamedTuple):
    """x_hat (N, D) in the accumulator dtype, and the mean, shift, variance and rstd (N,) used for it."""

    x_hat: NDArray
    mean: NDArray
    shift: NDArray
    variance: NDArray
    rstd: NDArray


class Pass(NamedTuple):
    """Results in the storage dtype; mean, shift and rstd (N,) as the pass used them."""

    results: Results
    mean: NDArray
    shift: NDArray
    rstd: NDArray


def run(algorithm: str, problem: Problem, eps: float, accumulator: DTypeLike) -> Pass:
    """y, dx, dgamma, dbeta of x, dy (N, D), N and D > 0, by the named algorithm; ValueError if unknown."""
    storage = problem.x.dtype
    x_hat, mean, shift, _, rstd = statistics(algorithm, problem.x, eps, accumulator)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        gamma, beta, dy = (array.astype(accumulator, copy=False) for array in problem[1:])
        dx, dgamma = gradients(x_hat, rstd, gamma, dy)
        found = Results(y=gamma * x_hat + beta, dx=dx, dgamma=dgamma, dbeta=tree_sum(dy.T))
        return Pass(Results(*(stored(part, storage) for part in found)), mean, shift, rstd)


def statistics(algorithm: str, x: NDArray, eps: float, accumulator: DTypeLike) -> Statistics:
    """x_hat and the statistics behind it, of rows x (N, D), by the named algorithm; ValueError if unknown."""
    if algorithm not in ALGORITHMS:
        raise ValueError(f"unknown algorithm {algorithm!r}; allowed: {', '.join(ALGORITHMS)}")
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        z, variance, mean, shift = ALGORITHMS[algorithm](x.astype(accumulator, copy=False))
        rstd = (1 / np.sqrt(variance + variance.dtype.type(eps))).astype(accumulator, copy=False)
        return Statistics(z * rstd[:, None], mean, shift, variance, rstd)


def gradients(x_hat: NDArray, rstd: NDArray, gamma: NDArray, dy: NDArray) -> tuple[NDArray, NDArray]:
    """dx (N, D) and dgamma (D,) from x_hat, dy (N, D), rstd (N,), gamma (D,), in the accumulator dtype."""
    n = count(x_hat)
    g = gamma * dy
    c1, c2 = (tree_sum(terms) / n for terms in (g, g * x_hat))
    return rstd[:, None] * (g - c1[:, None] - x_hat * c2[:, None]), tree_sum((dy * x_hat).T)


def stored(part: NDArray, storage: np.dtype) -> NDArray:
    """A result in the accumulator dtype, rounded once to the storage dtype."""
    return part if part.dtype == storage else round_to(part.astype(np.float64), storage)


def _by_variance(algorithm: Callable[[NDArray], tuple[NDArray, NDArray]]) -> Callable[[NDArray], Centred]:
    def centred(x: NDArray) -> Centred:
        mean, variance = algorithm(x)
        return Centred(x - mean[:, None], variance, mean, np.zeros_like(mean))

    return centred


def recentred(x: NDArray) -> Centred:
    """z = x - m; z -= mean(z); the variance of z."""
    n = count(x)
    mean = tree_sum(x) / n
    z = x - mean[:, None]
    shift = tree_sum(z) / n
    z = z - shift[:, None]
    return Centred(z, tree_sum(z * z) / n, mean, shift)


def recentred_sums(x: NDArray) -> Centred:
    """`recentred` from sums over z = x - m alone: a fused kernel needs no further sweep over the row."""
    n = count(x)
    mean = tree_sum(x) / n
    z = x - mean[:, None]
    shift = tree_sum(z) / n
    variance = tree_sum(z * z) / n - shift * shift
    return Centred(z - shift[:, None], np.maximum(variance, 0), mean, shift)


def float64_mean(x: NDArray) -> Centred:
    """The mean as in onnxruntime's AVX2 kernel; no different for float64 rows."""
    mean = (tree_sum(x.astype(np.float64)) / x.shape[-1]).astype(x.dtype)
    z = x - mean[:, None]
    return Centred(z, tree_sum(z * z) / count(x), mean, np.zeros_like(mean))


def float64_statistics(x: NDArray) -> Centred:
    """All statistics in float64; no different for float64 rows."""
    wide = x.astype(np.float64)
    mean = tree_sum(wide) / x.shape[-1]
    z = wide - mean[:, None]
    variance = tree_sum(z * z) / x.shape[-1]
    return Centred(z.astype(x.dtype), variance, mean, np.zeros_like(mean))


ALGORITHMS: dict[str, Callable[[NDArray], Centred]] = {
    name: _by_variance(algorithm) for name, algorithm in VARIANCE_ALGORITHMS.items()
} | {named.__name__: named for named in (recentred, recentred_sums, float64_mean, float64_statistics)}

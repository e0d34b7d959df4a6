"""Forward and backward pass in NumPy with each algorithm for a row's mean and variance, here called a way.

Every operation is one NumPy operation rounded to the accumulator; sums are binary trees (`tree_sum`) except
where the way defines its own; results are rounded to the storage dtype once, at the end. So the ways differ
only in how they compute mean and variance and what they subtract from x. A way with the name of a variance
algorithm uses its mean and its variance. The others:

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
from layernorm_backward.variance import ALGORITHMS, count


class Centred(NamedTuple):
    """Rows z (N, D) less their mean, and the variance (N,), in the accumulator (variance: or float64).

    mean and shift (N,) were subtracted from x in this order; they are not added up, which would round.
    """

    z: NDArray
    variance: NDArray
    mean: NDArray
    shift: NDArray


class Statistics(NamedTuple):
    """x_hat (N, D) in the accumulator, and the mean, shift, variance and rstd (N,) used for it."""

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


def run(way: str, problem: Problem, eps: float, accumulator: DTypeLike) -> Pass:
    """y, dx, dgamma, dbeta of x, dy (N, D), N and D > 0, by the named way; ValueError for an unknown one."""
    storage = problem.x.dtype
    x_hat, mean, shift, _, rstd = statistics(way, problem.x, eps, accumulator)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        gamma, beta, dy = (array.astype(accumulator, copy=False) for array in problem[1:])
        dx, dgamma = gradients(x_hat, rstd, gamma, dy)
        found = Results(y=gamma * x_hat + beta, dx=dx, dgamma=dgamma, dbeta=tree_sum(dy.T))
        return Pass(Results(*(stored(part, storage) for part in found)), mean, shift, rstd)


def statistics(way: str, x: NDArray, eps: float, accumulator: DTypeLike) -> Statistics:
    """x_hat and what made it, of rows x (N, D) by the named way; ValueError for an unknown one."""
    if way not in WAYS:
        raise ValueError(f"unknown way {way!r}; allowed: {', '.join(WAYS)}")
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        z, variance, mean, shift = WAYS[way](x.astype(accumulator, copy=False))
        rstd = (1 / np.sqrt(variance + variance.dtype.type(eps))).astype(accumulator, copy=False)
        return Statistics(z * rstd[:, None], mean, shift, variance, rstd)


def gradients(x_hat: NDArray, rstd: NDArray, gamma: NDArray, dy: NDArray) -> tuple[NDArray, NDArray]:
    """dx (N, D) and dgamma (D,) from x_hat, dy (N, D), rstd (N,) and gamma (D,), all in the accumulator."""
    n = count(x_hat)
    g = gamma * dy
    c1, c2 = (tree_sum(terms) / n for terms in (g, g * x_hat))
    return rstd[:, None] * (g - c1[:, None] - x_hat * c2[:, None]), tree_sum((dy * x_hat).T)


def stored(part: NDArray, storage: np.dtype) -> NDArray:
    """Results of the accumulator rounded once to the storage dtype."""
    return part if part.dtype == storage else round_to(part.astype(np.float64), storage)


def _by_variance(algorithm: Callable[[NDArray], tuple[NDArray, NDArray]]) -> Callable[[NDArray], Centred]:
    def centred(x: NDArray) -> Centred:
        mean, variance = algorithm(x)
        return Centred(x - mean[:, None], variance, mean, np.zeros_like(mean))

    return centred


def recentred(x: NDArray) -> Centred:
    """z = x - m; z -= mean(z); the variance of what is left."""
    n = count(x)
    mean = tree_sum(x) / n
    z = x - mean[:, None]
    shift = tree_sum(z) / n
    z = z - shift[:, None]
    return Centred(z, tree_sum(z * z) / n, mean, shift)


def recentred_sums(x: NDArray) -> Centred:
    """The same from sums over z = x - m alone, so that a fused kernel makes no further sweep."""
    n = count(x)
    mean = tree_sum(x) / n
    z = x - mean[:, None]
    shift = tree_sum(z) / n
    variance = tree_sum(z * z) / n - shift * shift
    return Centred(z - shift[:, None], np.maximum(variance, 0), mean, shift)


def float64_mean(x: NDArray) -> Centred:
    """The mean of onnxruntime's AVX2 kernel; float64 rows gain nothing."""
    mean = (tree_sum(x.astype(np.float64)) / x.shape[-1]).astype(x.dtype)
    z = x - mean[:, None]
    return Centred(z, tree_sum(z * z) / count(x), mean, np.zeros_like(mean))


def float64_statistics(x: NDArray) -> Centred:
    """Statistics in float64 throughout; float64 rows gain nothing."""
    wide = x.astype(np.float64)
    mean = tree_sum(wide) / x.shape[-1]
    z = wide - mean[:, None]
    variance = tree_sum(z * z) / x.shape[-1]
    return Centred(z.astype(x.dtype), variance, mean, np.zeros_like(mean))


WAYS: dict[str, Callable[[NDArray], Centred]] = {
    name: _by_variance(algorithm) for name, algorithm in ALGORITHMS.items()
} | {way.__name__: way for way in (recentred, recentred_sums, float64_mean, float64_statistics)}

"""The textbook equations, divided into GPU or CPU kernels in two ways, each a function of what it reads.

`separate` has one kernel per equation, (1) to (11). `fused` has one per direction, with one function per
sweep over a row; its backward pass normalizes x again, so x_hat is not stored. Accesses are counted from the
functions: parameters are the arrays that it reads, results those that it writes.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

EPS = 1e-5


def mean(x: NDArray) -> dict[str, NDArray]:
    return {"mean": x.mean(axis=-1, keepdims=True)}


def var(x: NDArray, mean: NDArray) -> dict[str, NDArray]:
    z = x - mean
    var = (z * z).mean(axis=-1, keepdims=True)
    return {"rstd": 1 / np.sqrt(var + EPS)}


def x_hat(x: NDArray, mean: NDArray, rstd: NDArray) -> dict[str, NDArray]:
    return {"x_hat": (x - mean) * rstd}


def y(x_hat: NDArray, gamma: NDArray, beta: NDArray) -> dict[str, NDArray]:
    return {"y": gamma * x_hat + beta}


def g(dy: NDArray, gamma: NDArray) -> dict[str, NDArray]:
    return {"g": gamma * dy}


def c1(g: NDArray) -> dict[str, NDArray]:
    return {"c1": g.mean(axis=-1, keepdims=True)}


def c2(g: NDArray, x_hat: NDArray) -> dict[str, NDArray]:
    return {"c2": (g * x_hat).mean(axis=-1, keepdims=True)}


def dx(g: NDArray, x_hat: NDArray, c1: NDArray, c2: NDArray, rstd: NDArray) -> dict[str, NDArray]:
    return {"dx": rstd * (g - c1 - x_hat * c2)}


def dgamma(dy: NDArray, x_hat: NDArray) -> dict[str, NDArray]:
    return {"dgamma": (dy * x_hat).sum(axis=0)}


def dbeta(dy: NDArray) -> dict[str, NDArray]:
    return {"dbeta": dy.sum(axis=0)}


def normalize_and_scale(
    x: NDArray, mean: NDArray, rstd: NDArray, gamma: NDArray, beta: NDArray
) -> dict[str, NDArray]:
    return {"y": gamma * ((x - mean) * rstd) + beta}


def both_means(dy: NDArray, x: NDArray, mean: NDArray, rstd: NDArray, gamma: NDArray) -> dict[str, NDArray]:
    g = gamma * dy
    x_hat = (x - mean) * rstd
    return c1(g) | c2(g, x_hat)


def all_gradients(
    dy: NDArray, x: NDArray, mean: NDArray, rstd: NDArray, gamma: NDArray, c1: NDArray, c2: NDArray
) -> dict[str, NDArray]:
    g = gamma * dy
    x_hat = (x - mean) * rstd
    return dx(g, x_hat, c1, c2, rstd) | dgamma(dy, x_hat) | dbeta(dy)


Sweep = Callable[..., dict[str, NDArray]]
SCHEMES: dict[str, dict[str, tuple[Sweep, ...]]] = {
    "separate": {"forward": (mean, var, x_hat, y), "backward": (g, c1, c2, dx, dgamma, dbeta)},
    "fused": {"forward": (mean, var, normalize_and_scale), "backward": (both_means, all_gradients)},
}

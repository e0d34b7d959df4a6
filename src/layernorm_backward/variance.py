"""Nine algorithms for the variance of a row, one function each, in an explicit order of operations.

Each takes rows x (..., D) and computes in x's dtype alone: every operation is one NumPy operation, rounded
to that dtype. `moments` chooses the accumulator dtype by casting x first. Operations are vectorised over
rows; along D they run in the algorithm's own order, sums as binary trees (`tree_sum`) by default.
All divide by D and also return the mean. Overflow gives inf or NaN, without a warning.

Sources: Chan, Golub & LeVeque 1983, "Algorithms for computing the sample variance" (naive, two-pass and
corrected two-pass, pairwise, shifted); Welford 1962; Neumaier 1974 (compensated sums).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from layernorm_backward.sums import compensated_sum, tree_sum


class Moments(NamedTuple):
    """mean and variance of each row, shape (...,), in the accumulator's dtype."""

    mean: NDArray
    variance: NDArray


def moments(algorithm: str, x: NDArray, accumulator: DTypeLike) -> Moments:
    """Mean and variance of rows x (..., D) by the named algorithm, in the accumulator's dtype."""
    if algorithm not in ALGORITHMS:
        raise ValueError(f"unknown variance algorithm {algorithm!r}; allowed: {', '.join(ALGORITHMS)}")
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return ALGORITHMS[algorithm](x.astype(accumulator, copy=False))


def accumulators(dtype: DTypeLike) -> dict[str, np.dtype]:
    """The accumulator dtypes of a storage dtype: the dtype itself, and float32 for 16-bit storage."""
    storage = np.dtype(dtype)
    wider = {"float32": np.dtype(np.float32)} if storage.itemsize == 2 else {}
    return {"storage": storage} | wider


def naive(x: NDArray) -> Moments:
    """S2/n - (S/n)^2 with S = sum(x), S2 = sum(x^2)."""
    n = count(x)
    mean = tree_sum(x) / n
    return Moments(mean, tree_sum(x * x) / n - mean * mean)


def naive_s2(x: NDArray) -> Moments:
    """(S2 - S^2/n)/n."""
    n = count(x)
    total = tree_sum(x)
    return Moments(total / n, (tree_sum(x * x) - total * total / n) / n)


def naive_nn(x: NDArray) -> Moments:
    """S2/n - S^2/n^2; n^2 overflows float16 from n = 256 on."""
    n = count(x)
    total = tree_sum(x)
    return Moments(total / n, tree_sum(x * x) / n - (total * total) / (n * n))


def naive_compensated(x: NDArray) -> Moments:
    """S2/n - (S/n)^2 with compensated running sums: the sums are accurate, their difference still cancels."""
    n = count(x)
    mean = compensated_sum(x) / n
    return Moments(mean, compensated_sum(x * x) / n - mean * mean)


def two_pass(x: NDArray) -> Moments:
    """sum((x - mean)^2)/n."""
    n = count(x)
    mean = tree_sum(x) / n
    centred = x - mean[..., None]
    return Moments(mean, tree_sum(centred * centred) / n)


def two_pass_corrected(x: NDArray) -> Moments:
    """(sum(d^2) - sum(d)^2/n)/n with d = x - mean; the mean is corrected by sum(d)/n."""
    n = count(x)
    mean = tree_sum(x) / n
    centred = x - mean[..., None]
    rest = tree_sum(centred)
    return Moments(mean + rest / n, (tree_sum(centred * centred) - rest * rest / n) / n)


def welford(x: NDArray) -> Moments:
    """Running update, one element at a time: d = x_k - mean; mean += d/k; M += d*(x_k - mean)."""
    mean, spread = x[..., 0], np.zeros_like(x[..., 0])
    for k, element in enumerate(np.ascontiguousarray(np.moveaxis(x, -1, 0))[1:], start=2):
        step = element - mean
        mean = mean + step / x.dtype.type(k)
        spread = spread + step * (element - mean)
    return Moments(mean, spread / count(x))


def chan(x: NDArray) -> Moments:
    """Binary tree of merges: d = mean_b - mean_a; mean_a + d*n_b/n; M_a + M_b + d^2*n_a*n_b/n."""
    mean, spread, counts = x, np.zeros_like(x), np.ones(x.shape[-1])
    while (parts := len(counts)) > 1:
        half = parts // 2
        a, b, odd = slice(half), slice(half, 2 * half), slice(2 * half, None)
        n_a, n_b = counts[a], counts[b]
        share = (n_b / (n_a + n_b)).astype(x.dtype)
        weight = (n_a * n_b / (n_a + n_b)).astype(x.dtype)
        step = mean[..., b] - mean[..., a]
        merged = (spread[..., a] + spread[..., b]) + step * step * weight
        spread = np.concatenate([merged, spread[..., odd]], axis=-1)
        mean = np.concatenate([mean[..., a] + step * share, mean[..., odd]], axis=-1)
        counts = np.concatenate([n_a + n_b, counts[odd]])
    return Moments(mean[..., 0], spread[..., 0] / count(x))


def shifted(x: NDArray) -> Moments:
    """The naive formula for d = x - x_1, the row less its first element."""
    n = count(x)
    first = x[..., :1]
    d = x - first
    rest = tree_sum(d) / n
    return Moments(first[..., 0] + rest, tree_sum(d * d) / n - rest * rest)


def count(x: NDArray) -> NDArray:
    """The number of elements of a row, rounded to the accumulator dtype (to 8 bits in bfloat16)."""
    return np.asarray(x.shape[-1], dtype=np.float64).astype(x.dtype)


ALGORITHMS: dict[str, Callable[[NDArray], Moments]] = {
    algorithm.__name__: algorithm
    for algorithm in (
        naive,
        naive_s2,
        naive_nn,
        naive_compensated,
        two_pass,
        two_pass_corrected,
        welford,
        chan,
        shifted,
    )
}

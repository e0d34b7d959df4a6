"""Error bounds of our kernels, from how each sums, computes mean and variance, and rounds what it saves.

numba_fused sums in the lanes of a cache line, the CUDA kernels in the threads of a team; their number also
depends on the storage dtype.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from layernorm_backward import oracle
from layernorm_backward.dtypes import sum_dtype, unit_roundoff
from layernorm_backward.kernels import cuda_fused, cuda_separate
from layernorm_backward.problem import Problem
from layernorm_backward.sums import lanes_depth, pairwise_depth
from layernorm_backward.theory import mean_bounds
from layernorm_backward.theory.bounds import Bounds, Rounding, bounds
from layernorm_backward.theory.magnitudes import Rows, rows_of
from layernorm_backward.theory.mean_bounds import Statistics

LINE = 64  # bytes of a cache line, which holds numba_fused's lanes
BLOCK = 16  # lines that it adds one after another


class Model(NamedTuple):
    """What a bound depends on: depth(hidden, itemsize) of the sums over D, the bounds of mean and variance,
    whether x_hat is rounded to 16 bits, and whether the kernel computes in float64 for every dtype.
    """

    depth: Callable[[int, int], int]
    statistics: Callable[[Rows, int, float], Statistics]
    rounds_x_hat: bool = False
    in_float64: bool = False


def pairwise(hidden: int, itemsize: int) -> int:
    """The depth of NumPy's sums."""
    return pairwise_depth(hidden)


def lines(hidden: int, itemsize: int) -> int:
    """The depth of numba_fused's sums."""
    return lanes_depth(hidden, LINE // itemsize, BLOCK)


def by_reciprocal(depth: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """The depth of sums that are multiplied by 1/D instead of divided by D: 1/D may be rounded as well."""
    return lambda hidden, itemsize: depth(hidden, itemsize) + (hidden & (hidden - 1) > 0)


MODELS = {
    "reference": Model(pairwise, mean_bounds.two_pass, in_float64=True),
    "compact": Model(pairwise, mean_bounds.two_pass, rounds_x_hat=True),
    "overcached": Model(pairwise, mean_bounds.two_pass, rounds_x_hat=True),
    "recentred": Model(pairwise, mean_bounds.recentred),
    "numpy_blocked": Model(pairwise, mean_bounds.recentred),
    "numba_fused": Model(by_reciprocal(lines), mean_bounds.algebraic),
    "cuda_fused": Model(by_reciprocal(cuda_fused.depth), mean_bounds.algebraic),
    "cuda_separate": Model(cuda_separate.depth, mean_bounds.two_pass),
}


def for_kernel(name: str, problem: Problem, moments: oracle.Moments, eps: float) -> Bounds:
    """Error bounds of a kernel on x, dy (rows, D); NaN for a kernel without an entry in MODELS."""
    if name not in MODELS:
        return Bounds(*(np.full(1, np.nan) for _ in Bounds._fields))
    return for_model(MODELS[name], problem, moments, eps)


def for_model(model: Model, problem: Problem, moments: oracle.Moments, eps: float) -> Bounds:
    """Error bounds of a kernel of this model; moments are the exact ones of x (rows, D), no row constant."""
    dtype, (rows, hidden) = problem.x.dtype, problem.x.shape
    rounding = Rounding(
        sum_u=unit_roundoff(np.float64 if model.in_float64 else sum_dtype(dtype)),
        result_u=unit_roundoff(dtype),
        depth=model.depth(hidden, dtype.itemsize),
        row_depth=rows,
        rounds_x_hat=model.rounds_x_hat and dtype.itemsize == 2,
    )
    statistics = model.statistics(rows_of(moments), rounding.depth, rounding.sum_u)
    return bounds(moments, *problem.values()[1:], eps, statistics, rounding)

"""Error bounds of the algorithms of `passes`, and of any kernel whose sums and statistics are known.

`mean_bounds` bounds the errors of mean and variance, `result_bounds` those of the results that follow.
"""

from numpy.typing import DTypeLike

from layernorm_backward import oracle
from layernorm_backward.double_double import Floats
from layernorm_backward.dtypes import largest, unit_roundoff
from layernorm_backward.problem import Problem
from layernorm_backward.sums import tree_depth
from layernorm_backward.theory.exact_rows import exact_rows
from layernorm_backward.theory.magnitudes import rows_of
from layernorm_backward.theory.mean_bounds import STATISTICS, Statistics
from layernorm_backward.theory.result_bounds import Bounds, Rounding, sizes, within

__all__ = ["Bounds", "Rounding", "bounds", "error_model", "for_algorithm"]


def for_algorithm(
    algorithm: str, problem: Problem, moments: oracle.Moments, eps: float, accumulator: DTypeLike
) -> Bounds:
    """Bounds of `passes.run` with these arguments; moments are the exact ones of x (rows, D)."""
    shape, storage = problem.x.shape, problem.x.dtype
    statistics, rounding = error_model(algorithm, shape, moments, accumulator, storage)
    return bounds(moments, *problem.values()[1:], eps, statistics, rounding)


def error_model(
    algorithm: str,
    shape: tuple[int, int],
    moments: oracle.Moments,
    accumulator: DTypeLike,
    storage: DTypeLike,
) -> tuple[Statistics, Rounding]:
    """Error bounds of the statistics, and the rounding, of an algorithm of `passes` for x (rows, D)."""
    rounding = Rounding(
        sum_u=unit_roundoff(accumulator),
        result_u=unit_roundoff(storage),
        depth=tree_depth(shape[1]),
        row_depth=tree_depth(shape[0]),
        largest=largest(accumulator),
    )
    return STATISTICS[algorithm](rows_of(moments), rounding.depth, rounding.sum_u), rounding


def bounds(
    moments: oracle.Moments,
    gamma: Floats,
    beta: Floats,
    dy: Floats,
    eps: float,
    statistics: Statistics,
    rounding: Rounding,
) -> Bounds:
    """Bounds from exact moments of x, dy (rows, D), gamma, beta (D,); all finite, no row of x constant."""
    exact = exact_rows(moments, gamma, beta, dy, eps)
    return within(exact, sizes(exact), statistics, rounding)

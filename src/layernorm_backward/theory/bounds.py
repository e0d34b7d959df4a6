"""Bounds of the errors of the ways of `passes`, and of any kernel whose sums and statistics are known.

`mean_bounds` says how far mean and variance can be off, `result_bounds` what follows for the results.
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

__all__ = ["Bounds", "Rounding", "bounds", "for_way", "of_way"]


def for_way(
    way: str, problem: Problem, moments: oracle.Moments, eps: float, accumulator: DTypeLike
) -> Bounds:
    """Bounds of `passes.run(way, problem, eps, accumulator)`; moments are the exact ones of x (rows, D)."""
    statistics, rounding = of_way(way, problem.x.shape, moments, accumulator, problem.x.dtype)
    return bounds(moments, *problem.values()[1:], eps, statistics, rounding)


def of_way(
    way: str, shape: tuple[int, int], moments: oracle.Moments, accumulator: DTypeLike, storage: DTypeLike
) -> tuple[Statistics, Rounding]:
    """The statistics' errors and the rounding of a way of `passes` on x of this shape (rows, D)."""
    rounding = Rounding(
        sum_u=unit_roundoff(accumulator),
        result_u=unit_roundoff(storage),
        depth=tree_depth(shape[1]),
        row_depth=tree_depth(shape[0]),
        largest=largest(accumulator),
    )
    return STATISTICS[way](rows_of(moments), rounding.depth, rounding.sum_u), rounding


def bounds(
    moments: oracle.Moments,
    gamma: Floats,
    beta: Floats,
    dy: Floats,
    eps: float,
    statistics: Statistics,
    rounding: Rounding,
) -> Bounds:
    """Bounds for the moments of x, dy (rows, D), gamma, beta (D,), all finite and no row of x constant."""
    exact = exact_rows(moments, gamma, beta, dy, eps)
    return within(exact, sizes(exact), statistics, rounding)

"""Errors of one pass on one problem, their first-order identity and their bounds, summarized over rows."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from layernorm_backward import oracle, passes
from layernorm_backward.double_double import Floats
from layernorm_backward.dtypes import unit_roundoff
from layernorm_backward.errors import error, norm, over_bounds, relative
from layernorm_backward.experiments._rows import kappa_g
from layernorm_backward.problem import Problem, Results
from layernorm_backward.theory import bounds, identity, result_bounds
from layernorm_backward.theory.exact_rows import ExactRows, exact_rows
from layernorm_backward.variance import accumulators


class Case(NamedTuple):
    """A problem with its exact quantities, for any number of passes; `norms` are those of rows of `truth`."""

    problem: Problem
    eps: float
    moments: oracle.Moments
    truth: oracle.Results
    norms: tuple[Floats, Floats, Floats, Floats]
    exact: ExactRows
    sizes: result_bounds.Sizes
    kappa_g: float

    @classmethod
    def of(cls, problem: Problem, moments: oracle.Moments, eps: float) -> "Case":
        x, *others = problem.values()
        exact = exact_rows(moments, *others, eps)
        truth = oracle.results(x, *others, eps)
        share = kappa_g(exact.g, 1 / exact.r[:, 0], exact.dx)
        norms = tuple(norm(part.hi) for part in truth)
        return cls(problem, eps, moments, truth, norms, exact, result_bounds.sizes(exact), share)


def measure(case: Case, way: str, accumulator: str) -> Iterator[dict[str, Any]]:
    """A record for each quantity; `errors` are those of its rows, in u."""
    dtype = case.problem.x.dtype
    sums = accumulators(dtype)[accumulator]
    found = passes.run(way, case.problem, case.eps, sums)
    off = identity.deviation(found, case.moments, case.eps)
    effects = identity.first_order(case.exact, off), identity.propagated(case.exact, off)
    limits = result_bounds.within(
        case.exact, case.sizes, *bounds.error_model(way, case.problem.x.shape, case.moments, sums, dtype)
    )
    for quantity, computed, truth, size, first, all_orders, limit in zip(
        Results._fields, found.results, case.truth, case.norms, *effects, limits, strict=True
    ):
        parts = _relative(error(computed, truth), size, first, all_orders)
        in_u = [np.atleast_1d(part) / unit_roundoff(dtype) for part in (*parts, limit)]
        yield {"quantity": quantity, "kappa_g": case.kappa_g, "reason": ""} | _summary(*in_u)


def _relative(
    off: Floats, size: Floats, first: Floats, all_orders: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Row by row, of a result of that size: its error, the first-order effect, the error less it, the error
    less the exact effect.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        explained = [norm(part) / size for part in (first, off - first, off - all_orders)]
    return relative(off, size), *(np.where(np.isnan(part), np.inf, part) for part in explained)


def _summary(
    errors: Floats, first: Floats, residual: Floats, remainder: Floats, limit: Floats
) -> dict[str, Any]:
    ratio = over_bounds(errors, limit)
    return {
        "errors": errors,
        "error_u_median": float(np.median(errors)),
        "error_u_max": float(np.max(errors)),
        "identity_u_median": float(np.median(first)),
        "identity_u_max": float(np.max(first)),
        "residual_u_max": float(np.max(residual)),
        "remainder_u_max": float(np.max(remainder)),
        "bound_u": float(np.max(limit)),
        "bound_ratio_median": float(np.median(ratio)) if ratio.size else np.nan,
        "bound_ratio_max": float(np.max(ratio)) if ratio.size else np.nan,
        "bounded_rows": ratio.size,
        "violations": int(np.sum(ratio > 1)),
    }

"""The checks of a variant: its errors, and whether its results are bit for bit those of the default.

Errors are those of dx (forward: y), against exact results that are computed once for all variants. Bits are
compared on the first rows of the timed arrays, with every number of threads from 1 to all, to those of the
default plan on one thread.
"""

from collections.abc import Mapping
from functools import cache, partial
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward import inputs, oracle, stopwatch
from layernorm_backward.aligned import aligned_empty
from layernorm_backward.directions import Direction
from layernorm_backward.double_double import DoubleDouble, exactly
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.errors import error_u
from layernorm_backward.experiments._rows import kappa_mismatch
from layernorm_backward.experiments._variants import DEFAULT, Shape, plans
from layernorm_backward.kernels import numba_fused, numba_plan
from layernorm_backward.kernels.numba_plan import Plan
from layernorm_backward.problem import Problem, draw
from layernorm_backward.stopwatch import Call
from layernorm_backward.timing.pool import Buffers
from layernorm_backward.timing.prepared import evenly
from layernorm_backward.timing.timed import most_threads

EPS = numba_fused.KERNEL.default_eps
ROWS = 64  # rows with a large mean over which a largest error is taken


class Sampled(NamedTuple):
    """Some rows of the arrays to be timed, and their exact dx (or y)."""

    rows: NDArray[np.intp]
    exact: DoubleDouble


class Agreement(NamedTuple):
    """Agreement with the default: bitwise equal or not; largest norm-wise difference, in u of the dtype."""

    bits_equal: bool
    difference_u: float


def sampled(direction: Direction, arrays: Buffers, count: int) -> Sampled:
    """`count` evenly spaced rows, including the first and the last."""
    rows = evenly(count, len(arrays.x))
    return Sampled(
        rows, _exact(direction, Problem(arrays.x[rows], arrays.gamma, arrays.beta, arrays.dy[rows]))
    )


def calls(direction: Direction, arrays: Buffers, made: Mapping[str, Plan]) -> dict[str, Call]:
    """The pass over the arrays by each plan; the backward pass reads what the default forward pass saved."""
    x, dy, out, gamma, beta, dgamma, dbeta, *_ = arrays
    if direction == "forward":
        return {
            name: partial(numba_fused.forward, x, gamma, beta, EPS, out=out, plan=plan)
            for name, plan in made.items()
        }
    _, saved = numba_fused.forward(x, gamma, beta, EPS, out=out)
    results = (out, dgamma, dbeta)
    return {
        name: partial(numba_fused.backward, dy, saved, out=results, plan=plan) for name, plan in made.items()
    }


def first_run(call: Call, out: NDArray, sample: Sampled) -> tuple[float, float]:
    """Seconds of a run that fills `out`, and the largest error of the sampled rows in units of u."""
    out[sample.rows] = np.nan
    started = perf_counter()
    call()
    seconds = perf_counter() - started
    return seconds, float(error_u(out[sample.rows], sample.exact).max())


class Ran(NamedTuple):
    """Calls that ran once, seconds of the shortest run, and the largest error of some rows in units of u."""

    calls: dict[str, Call]
    run_s: float
    error_u: float


def ran(direction: Direction, arrays: Buffers, made: Mapping[str, Plan], error_rows: int) -> Ran:
    """`calls`, each run once; errors are those of `error_rows` rows."""
    found, exact = calls(direction, arrays, made), sampled(direction, arrays, error_rows)
    seconds, errors = zip(*(first_run(call, arrays.out, exact) for call in found.values()), strict=True)
    return Ran(found, min(seconds), max(errors))


def wrong(error_u: float, limit_u: float) -> str:
    """Why a plan with this error is not timed; "" where it is."""
    return "" if error_u <= limit_u else f"wrong: {error_u:.3g} u off, over {limit_u:g} u"


@cache
def errors_at(
    kappa: float, direction: Direction, dtype: str, hidden: int, seed: int, variants: tuple[str, ...]
) -> dict[str, float]:
    """Largest error in u, by variant, on rows of this kappa; empty where the dtype has no such rows."""
    rng = inputs.generator(seed, hidden)
    x = inputs.rows(rng, ROWS, hidden, dtype_of(dtype), mean=inputs.mean_of_kappa(kappa))
    if kappa_mismatch(oracle.moments(inputs.values(x)), kappa, dtype):
        return {}
    problem = draw(rng, x, "shifted", "random")
    exact = _exact(direction, problem)
    made = plans(variants, Shape(ROWS, hidden, dtype, direction, 1))
    found = {name: _results(direction, problem, plan)[0] for name, plan in made.items()}
    return {name: float(error_u(result, exact).max()) for name, result in found.items()}


def agreements(
    direction: Direction, arrays: Buffers, rows: int, made: Mapping[str, Plan]
) -> dict[str, Agreement]:
    """How the results of each plan on the first rows, on 1 to all threads, agree with the default on one.

    There are enough rows that all threads get some: a small pass runs on one thread whatever is set.
    """
    rows = max(rows, most_threads() * numba_plan.GRAIN // arrays.x[:1].nbytes + 1)
    problem = Problem(arrays.x[:rows], arrays.gamma, arrays.beta, arrays.dy[:rows])
    with stopwatch.threads(1):
        expected = _results(direction, problem, made[DEFAULT])
    found = {name: Agreement(True, 0.0) for name in made}
    for threads in range(1, most_threads() + 1):
        with stopwatch.threads(threads):
            for name, plan in made.items():
                found[name] = _worse(found[name], _results(direction, problem, plan), expected)
    return found


def _worse(so_far: Agreement, results: tuple[NDArray, ...], expected: tuple[NDArray, ...]) -> Agreement:
    pairs = list(zip(results, expected, strict=True))
    equal = all(np.array_equal(one.view(np.uint8), other.view(np.uint8)) for one, other in pairs)
    if equal:
        return so_far
    differences = [float(error_u(one, exactly(inputs.values(other))).max()) for one, other in pairs]
    return Agreement(False, max(so_far.difference_u, *differences))


def _results(direction: Direction, problem: Problem, plan: Plan) -> tuple[NDArray, ...]:
    """The results, in memory that begins at a cache line, as in the timing: else rows end within lines."""
    x, dy, gamma, beta = problem.x, problem.dy, problem.gamma, problem.beta
    out = aligned_empty(x.shape, x.dtype)
    if direction == "forward":
        return (numba_fused.forward(x, gamma, beta, EPS, out=out, plan=plan)[0],)
    _, saved = numba_fused.forward(x, gamma, beta, EPS)
    return numba_fused.backward(dy, saved, out=(out, *np.empty((2, gamma.size), gamma.dtype)), plan=plan)


def _exact(direction: Direction, problem: Problem) -> DoubleDouble:
    x, gamma, beta, dy = problem.values()
    if direction == "forward":
        return oracle.forward(x, gamma, beta, EPS)
    return oracle.backward(x, gamma, dy, EPS).dx

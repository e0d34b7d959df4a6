"""Cases at the edge, each judged against the exact result for the rounded input, never against a kernel.

A case passes where the norm-wise error of every row of y, dx and of dgamma, dbeta is at most `limit_u`
units of u of the dtype; where the exact result is 0, only 0 will do. `value` is the largest of these
errors unless `reason`, which says what was checked, names another quantity.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from layernorm_backward import inputs, oracle
from layernorm_backward.dtypes import DTYPE_NAMES, DtypeName, dtype_of, round_to, unit_roundoff
from layernorm_backward.errors import error_u
from layernorm_backward.kernels import KERNELS, Kernel
from layernorm_backward.problem import Problem, Results, draw, run_kernel

SCALES = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6)


class Bench(NamedTuple):
    """Where a case is tried: kernel, dtype, a seeded generator, eps and the limit in units of u."""

    kernel: Kernel
    dtype: DtypeName
    rng: np.random.Generator
    eps: float
    limit_u: float

    def problem(self, values: NDArray[np.float64]) -> Problem:
        """The problem of the rows `values`, rounded to the dtype."""
        return draw(self.rng, round_to(values, dtype_of(self.dtype)), "shifted", "random")


class Outcome(NamedTuple):
    """passed is None where the case cannot be had in this dtype."""

    passed: bool | None
    value: float
    reason: str


def run(
    *, kernels: list[str], dtypes: list[DtypeName], eps: float, limit_u: float, seed: int
) -> pd.DataFrame:
    """One row per kernel, case and dtype."""
    records: list[dict[str, Any]] = []
    for name in tqdm(kernels, desc="edge_cases", mininterval=1):
        for dtype in dtypes:
            for number, (case, judge) in enumerate(CASES.items()):
                rng = inputs.generator(seed, DTYPE_NAMES.index(dtype), number)
                outcome = _outcome(judge, Bench(KERNELS[name], dtype, rng, eps, limit_u))
                passed = pd.NA if outcome.passed is None else outcome.passed
                keys = {"kernel": name, "case": case, "dtype": dtype}
                records.append(keys | outcome._asdict() | {"passed": passed})
    table = pd.DataFrame(records)
    return table.assign(passed=table["passed"].astype("boolean"))


def _outcome(judge: Callable[[Bench], Outcome], bench: Bench) -> Outcome:
    if bench.dtype not in bench.kernel.dtypes:
        return Outcome(None, np.nan, bench.kernel.unsupported[bench.dtype])
    return judge(bench)


def _judged(bench: Bench, values: NDArray[np.float64], what: str) -> Outcome:
    """Run the kernel on the rows `values` and compare all results with the exact ones."""
    problem = bench.problem(values)
    if not np.isfinite(inputs.values(problem.x)).all():
        return Outcome(None, np.nan, f"{what}: overflows in {bench.dtype}")
    return _compared(bench, run_kernel(bench.kernel, problem, bench.eps), problem, what)


def _compared(bench: Bench, computed: Results, problem: Problem, what: str) -> Outcome:
    worst = _worst(computed, oracle.results(*problem.values(), bench.eps))
    return Outcome(worst <= bench.limit_u, worst, f"{what}: all results within {bench.limit_u:g} u")


def _worst(computed: Results, exact: oracle.Results) -> float:
    return max(float(np.max(error_u(*pair), initial=0.0)) for pair in zip(computed, exact, strict=True))


def zero_input(bench: Bench) -> Outcome:
    return _judged(bench, np.zeros((4, 64)), "x = 0")


def tiny_variance(bench: Bench) -> Outcome:
    std = 32 * unit_roundoff(dtype_of(bench.dtype))
    return _judged(bench, 1 + std * bench.rng.standard_normal((64, 256)), f"mean 1, std 32u = {std:.2g}")


def offset_1e8(bench: Bench) -> Outcome:
    return _judged(bench, 1e8 + bench.rng.standard_normal((64, 256)), "mean 1e8, std 1, rounded to the dtype")


def width_1(bench: Bench) -> Outcome:
    return _judged(bench, bench.rng.standard_normal((5, 1)), "D = 1, so dx and dgamma are exactly 0")


def width_1024(bench: Bench) -> Outcome:
    return _judged(bench, bench.rng.standard_normal((64, 1024)), "D = 1024")


def one_row(bench: Bench) -> Outcome:
    return _judged(bench, bench.rng.standard_normal((1, 64)), "one row")


def no_rows(bench: Bench) -> Outcome:
    return _judged(bench, np.empty((0, 64)), "no rows: dx is empty, dgamma and dbeta exactly 0")


def constant_rows(bench: Bench) -> Outcome:
    values = np.repeat(bench.rng.standard_normal((64, 1)), 1000, axis=1)
    return _judged(bench, values, "constant rows, D = 1000, dgamma exactly 0")


def nan_row(bench: Bench) -> Outcome:
    """The NaN row's dx must be NaN; every other row of y and dx is judged as usual."""
    values = bench.rng.standard_normal((8, 64))
    values[3, 7] = np.nan
    problem = bench.problem(values)
    computed = run_kernel(bench.kernel, problem, bench.eps)
    exact, others = oracle.results(*problem.values(), bench.eps), np.arange(8) != 3
    pairs = ((computed.y, exact.y), (computed.dx, exact.dx))
    worst = max(float(np.max(error_u(found[others], truth.at(others)))) for found, truth in pairs)
    spoiled = bool(np.isnan(inputs.values(computed.dx)[3]).all())
    what = f"a NaN in one row: its dx is NaN, y and dx of the others within {bench.limit_u:g} u"
    return Outcome(spoiled and worst <= bench.limit_u, worst, what)


def x_deleted(bench: Bench) -> Outcome:
    """x is overwritten with NaN after the forward pass, unless `saved` holds x itself."""
    problem = bench.problem(bench.rng.standard_normal((8, 64)))
    x = problem.x.copy()
    y, saved = bench.kernel.forward(x, problem.gamma, problem.beta, bench.eps)
    keeps = any(np.may_share_memory(x, part) for part in saved if isinstance(part, np.ndarray))
    if not keeps:
        x.fill(np.nan)
    del x
    computed = Results(y, *bench.kernel.backward(problem.dy, saved))
    what = (
        "x is saved: the caller's name deleted" if keeps else "x not saved: overwritten with NaN and deleted"
    )
    return _compared(bench, computed, problem, f"{what} before the backward pass")


def non_contiguous(bench: Bench) -> Outcome:
    """Each array is every other column of an array twice as wide, in Fortran order."""
    problem = bench.problem(bench.rng.standard_normal((8, 64)))
    strided = Problem(*(_strided(array) for array in problem))
    return _compared(bench, run_kernel(bench.kernel, strided, bench.eps), problem, "strided arrays")


def read_only(bench: Bench) -> Outcome:
    problem = bench.problem(bench.rng.standard_normal((8, 64)))
    locked = Problem(*(array.copy() for array in problem))
    for array in locked:
        array.flags.writeable = False
    return _compared(bench, run_kernel(bench.kernel, locked, bench.eps), problem, "read-only arrays")


def _strided(array: NDArray) -> NDArray:
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype, order="F")
    wide[..., ::2] = array
    return wide[..., ::2]


def _scaled(scale: float) -> Callable[[Bench], Outcome]:
    def judge(bench: Bench) -> Outcome:
        """Judged as usual; value is norm(dx)*scale over norm(dx) at scale 1, which eps keeps from 1."""
        deviations = bench.rng.standard_normal((64, 256))
        state = bench.rng.bit_generator.state
        outcome = _judged(bench, scale * deviations, f"x scaled by {scale:g}")
        if outcome.passed is None:
            return outcome
        norms = []
        for factor in (scale, 1.0):
            bench.rng.bit_generator.state = state
            computed = run_kernel(bench.kernel, bench.problem(factor * deviations), bench.eps)
            norms.append(factor * float(np.linalg.norm(inputs.values(computed.dx))))
        what = f"{outcome.reason}; value is norm(dx)*scale over norm(dx) at scale 1"
        return Outcome(outcome.passed, norms[0] / norms[1], what)

    return judge


CASES: dict[str, Callable[[Bench], Outcome]] = {
    case.__name__: case
    for case in (
        zero_input,
        tiny_variance,
        offset_1e8,
        width_1,
        width_1024,
        one_row,
        no_rows,
        constant_rows,
        nan_row,
        x_deleted,
        non_contiguous,
        read_only,
    )
} | {f"scale_{scale:g}": _scaled(scale) for scale in SCALES}

"""Edge cases, each compared with the exact result for the rounded input, never with a kernel.

A case passes if the norm-wise error of every row of y and dx, and of dgamma and dbeta, is at most `limit_u`
in units of u of the dtype; where the exact result is 0, the result must be 0. `value` is the largest of these
errors unless `reason`, which says what was checked, names another quantity.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward import inputs, oracle
from layernorm_backward.double_double import Floats
from layernorm_backward.dtypes import DTYPE_NAMES, DtypeName, dtype_of, round_to, unit_roundoff
from layernorm_backward.errors import error_u
from layernorm_backward.kernels import Kernel
from layernorm_backward.portable import norm
from layernorm_backward.problem import Problem, Results, copied, draw, run_kernel
from layernorm_backward.untrusted.reachable import arrays

ODD_WIDTHS = (33, 129)  # whole vectors (of up to 128 elements) plus one element
SCALES = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6)
NAN_ROW = 3


class Trial(NamedTuple):
    """A kernel, a problem with its exact results, eps, and the largest error that passes."""

    kernel: Kernel
    problem: Problem
    exact: oracle.Results
    eps: float
    limit_u: float


class Outcome(NamedTuple):
    """passed is None where the case does not exist in this dtype."""

    passed: bool | None
    value: float
    reason: str


class Case(NamedTuple):
    """A description, the rows (..., D) made from normal deviates and u, and the judgement of a trial."""

    what: str
    shape: tuple[int, ...]
    rows: Callable[[Floats, float], Floats]
    judge: Callable[[Trial], Outcome]


def posed(
    name: str,
    dtype: DtypeName,
    eps: float,
    seed: int,
    cases: Mapping[str, Case] | None = None,
    gamma_dtype: DtypeName | None = None,
) -> tuple[Problem, oracle.Results]:
    """The problem of the named case in this dtype, and its exact results; `cases` is CASES by default.

    gamma and beta have x's dtype by default.
    """
    cases = CASES if cases is None else cases
    rng = inputs.generator(seed, DTYPE_NAMES.index(dtype), list(cases).index(name))
    problem = _problem(cases[name], rng, dtype, gamma_dtype or dtype)
    return problem, oracle.results(*problem.values(), eps)


def _problem(case: Case, rng: np.random.Generator, dtype: DtypeName, gamma_dtype: DtypeName) -> Problem:
    u = unit_roundoff(dtype_of(dtype))
    x = round_to(case.rows(rng.standard_normal(case.shape), u), dtype_of(dtype))
    return draw(rng, x, "shifted", "random", dtype_of(gamma_dtype))


def outcome(name: str, trial: Trial, cases: Mapping[str, Case] | None = None) -> Outcome:
    """The outcome of a trial in the named case; the trial's problem is the one from `posed`."""
    case, dtype = (CASES if cases is None else cases)[name], trial.problem.x.dtype.name
    if dtype not in trial.kernel.dtypes:
        return Outcome(None, np.nan, trial.kernel.unsupported[dtype])
    if np.isinf(inputs.values(trial.problem.x)).any():
        return Outcome(None, np.nan, f"{case.what}: overflows in {dtype}")
    found = case.judge(trial)
    return found._replace(reason=f"{case.what}: {found.reason}")


def as_given(trial: Trial) -> Outcome:
    """The arrays as they are."""
    return _compared(trial, run_kernel(trial.kernel, trial.problem, trial.eps))


def strided(trial: Trial) -> Outcome:
    """Each array is every other column of an array twice as wide, in Fortran order."""
    problem = Problem(*(_strided(array) for array in trial.problem))
    return _compared(trial, run_kernel(trial.kernel, problem, trial.eps))


def read_only(trial: Trial) -> Outcome:
    """Arrays that NumPy refuses to write to."""
    problem = Problem(*(array.copy() for array in trial.problem))
    for array in problem:
        array.flags.writeable = False
    return _compared(trial, run_kernel(trial.kernel, problem, trial.eps))


def x_deleted(trial: Trial) -> Outcome:
    """x is overwritten with NaN after the forward pass, unless `saved` holds x itself."""
    problem, x = trial.problem, trial.problem.x.copy()
    y, saved = trial.kernel.forward(x, problem.gamma, problem.beta, trial.eps)
    keeps = any(np.may_share_memory(x, part) for part in arrays(saved))
    if not keeps:
        x.fill(np.nan)
    del x
    outcome = _compared(trial, Results(y, *trial.kernel.backward(problem.dy, saved)))
    how = (
        "x is saved, only the caller's name was deleted"
        if keeps
        else "x is not saved, so it was overwritten with NaN"
    )
    return outcome._replace(reason=f"{how}; {outcome.reason}")


def nan_row(trial: Trial) -> Outcome:
    """dx of the NaN row must be NaN; all other rows of y and dx are judged as usual."""
    computed = run_kernel(trial.kernel, trial.problem, trial.eps)
    others = np.arange(len(computed.dx)) != NAN_ROW
    pairs = ((computed.y, trial.exact.y), (computed.dx, trial.exact.dx))
    worst = max(float(np.max(error_u(found[others], truth.at(others)))) for found, truth in pairs)
    spoiled = bool(np.isnan(inputs.values(computed.dx)[NAN_ROW]).all())
    reason = f"that row's dx is NaN, y and dx of the others within {trial.limit_u:g} u"
    return Outcome(spoiled and worst <= trial.limit_u, worst, reason)


def one_wide(trial: Trial) -> Outcome:
    """Judged as usual; the reason gives the sizes of dx and dgamma, whose exact values are 0."""
    computed = run_kernel(trial.kernel, trial.problem, trial.eps)
    dx, dgamma = (float(np.max(np.abs(inputs.values(part)))) for part in (computed.dx, computed.dgamma))
    outcome = _compared(trial, computed)
    return outcome._replace(reason=f"largest |dx| {dx:.2g}, |dgamma| {dgamma:.2g}; {outcome.reason}")


def norm_at_scale(scale: float) -> Callable[[Trial], Outcome]:
    """Judged as usual; the value is norm(dx)*scale over norm(dx) for x/scale, which eps lowers."""

    def judge(trial: Trial) -> Outcome:
        unscaled = round_to(inputs.values(trial.problem.x) / scale, trial.problem.x.dtype)
        computed = run_kernel(trial.kernel, copied(trial.problem), trial.eps)
        outcome, size = (
            _compared(trial, computed),
            _size(computed.dx),
        )  # before the next call, which may overwrite dx
        base_size = _size(run_kernel(trial.kernel, trial.problem._replace(x=unscaled), trial.eps).dx)
        reason = f"{outcome.reason}; value is norm(dx)*scale over norm(dx) at scale 1"
        return Outcome(outcome.passed, size * scale / base_size, reason)

    return judge


def _compared(trial: Trial, computed: Results) -> Outcome:
    pairs = zip(computed, trial.exact, strict=True)
    worst = max(float(np.max(error_u(*pair), initial=0.0)) for pair in pairs)
    return Outcome(worst <= trial.limit_u, worst, f"all results within {trial.limit_u:g} u")


def _size(array: NDArray) -> float:
    return float(norm(inputs.values(array)))


def _strided(array: NDArray) -> NDArray:
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype, order="F")
    wide[..., ::2] = array
    return wide[..., ::2]


def _normal(deviates: Floats, u: float) -> Floats:
    return deviates


def _with_nan(deviates: Floats, u: float) -> Floats:
    deviates[NAN_ROW, 7] = np.nan
    return deviates


def _scaled(scale: float) -> Case:
    what = f"x = {scale:g}*N(0,1)"
    return Case(what, (16, 128), lambda deviates, u: scale * deviates, norm_at_scale(scale))


CASES: dict[str, Case] = {
    "zero_input": Case("x = 0", (4, 64), lambda deviates, u: 0 * deviates, as_given),
    "tiny_variance": Case("mean 1, std 32u", (16, 128), lambda deviates, u: 1 + 32 * u * deviates, as_given),
    "offset_1e8": Case("mean 1e8, std 1", (16, 128), lambda deviates, u: 1e8 + deviates, as_given),
    "width_1": Case("D = 1, dx and dgamma are 0", (5, 1), _normal, one_wide),
    "width_1024": Case("D = 1024", (16, 1024), _normal, as_given),
    "one_row": Case("one row", (1, 64), _normal, as_given),
    "no_rows": Case("no rows, dgamma and dbeta are 0", (0, 64), _normal, as_given),
    "constant_rows": Case(
        "constant rows, D = 1000, dgamma is 0",
        (16, 1000),
        lambda deviates, u: np.repeat(deviates[:, :1], 1000, axis=1),
        as_given,
    ),
    "nan_row": Case("a NaN in one row", (8, 64), _with_nan, nan_row),
    "x_deleted": Case("backward after x is deleted", (8, 64), _normal, x_deleted),
    "non_contiguous": Case("strided arrays", (8, 64), _normal, strided),
    "read_only": Case("read-only arrays", (8, 64), _normal, read_only),
}
CASES |= {f"scale_{scale:g}": _scaled(scale) for scale in SCALES}
CASES |= {f"width_{width}": Case(f"D = {width}", (7, width), _normal, as_given) for width in ODD_WIDTHS}

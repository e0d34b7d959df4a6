"""Properties beside the sweep over kappa: the formula, eps, long sums, and the independence of calls."""

from collections.abc import Callable, Collection, Iterator
from math import prod

import numpy as np

from layernorm_backward import inputs, oracle
from layernorm_backward.audit.advice_texts import LAST_AXIS
from layernorm_backward.audit.calls import inputs_kept, repeatable, undisturbed
from layernorm_backward.audit.into_out import into_out
from layernorm_backward.audit.setting import Finding, Setting, broken
from layernorm_backward.audit.sweep import ROWS, worst_errors
from layernorm_backward.dtypes import DtypeName, dtype_of, unit_roundoff
from layernorm_backward.gradient_check import check
from layernorm_backward.gradient_check.datasets import adequate
from layernorm_backward.kernels import Kernel
from layernorm_backward.problem import Results, draw, run_kernel
from layernorm_backward.untrusted.raised import FAILURES

EPSILONS = (1e-6, 1e-3)
SUM_HIDDEN = 16
WRONG_ARE = "; wrong: "
TWO_AXES = f"right where x has two axes: {LAST_AXIS}"


def gradient_check(kernel: Kernel, dtype: DtypeName, setting: Setting) -> Finding:
    """The largest error over tolerance of `gradient_check.check`.

    Where it fails on three axes and passes on two, the note says so.
    """
    *leading, hidden = setting.check_shape
    found = _checked(kernel, dtype, setting, setting.check_shape)
    if not found.passed and _checked(kernel, dtype, setting, (prod(leading), hidden)).passed:
        return found._replace(note=f"{found.note}; {TWO_AXES}")
    return found


def _checked(kernel: Kernel, dtype: DtypeName, setting: Setting, shape: tuple[int, ...]) -> Finding:
    at = adequate(shape, setting.eps, setting.seed, dtype)
    if setting.gamma_dtype and dtype_of(dtype).itemsize == 2:
        beside = dtype_of(setting.gamma_of(dtype))
        at = at._replace(gamma=at.gamma.astype(beside), beta=at.beta.astype(beside))
    try:
        found = check(kernel, at, eps=setting.eps, seed=setting.seed, raise_on_failure=False)
    except FAILURES as error:
        return broken("gradient_check", 1.0, error)
    used = found["error_over_tolerance"].max(skipna=False)
    wrong = set(found.loc[~found["passed"], "quantity"])
    return Finding("gradient_check", float(used), 1.0, not wrong, note=_listed(f"in {dtype}", wrong))


def eps_obeyed(kernel: Kernel, dtype: DtypeName, setting: Setting) -> Finding:
    """The worst error of all results on rows whose variance is eps, for two eps that are not the default."""
    worst = []
    wrong = set()
    for number, eps in enumerate(EPSILONS):
        rng = inputs.generator(setting.seed, number)
        x = inputs.rows(rng, setting.rows, setting.hidden, dtype_of(dtype), std=np.sqrt(eps))
        problem = draw(rng, x, "shifted", "random", dtype_of(setting.gamma_of(dtype)))
        exact = oracle.results(*problem.values(), eps)
        errors = dict(
            zip(Results._fields, worst_errors(run_kernel(kernel, problem, eps), exact), strict=True)
        )
        worst.append(max(errors.values()))
        wrong |= {name for name, error in errors.items() if error > setting.limit_u}
    note = _listed(f"at eps {EPSILONS[int(np.argmax(worst))]:g}", wrong)
    return Finding("eps_obeyed", max(worst), setting.limit_u, max(worst) <= setting.limit_u, note=note)


def long_sums(kernel: Kernel, dtype: DtypeName, setting: Setting) -> Finding:
    """The larger error of dgamma and dbeta over many rows, whose terms have mean 1.

    The note names y and dx if they are over the limit, as where rows between chunks are lost.
    """
    rng = inputs.generator(setting.seed, setting.sum_rows)
    x = inputs.rows(rng, setting.sum_rows, SUM_HIDDEN, dtype_of(dtype))
    beside = setting.gamma_of(dtype)
    problem = draw(rng, x, "shifted", "random", dtype_of(beside))._replace(dy=inputs.aligned(rng, x, 1.0))
    exact = oracle.results(*problem.values(), setting.eps)
    errors = worst_errors(run_kernel(kernel, problem, setting.eps), exact)
    limit, worst = setting.sum_limit_u(setting.sum_rows, beside), max(errors[2:])
    most = setting.sum_limit_u(setting.sum_rows, dtype)
    lost = {name for name, error in zip(ROWS, errors[:2], strict=True) if error > most}
    note = _listed(f"{setting.sum_rows} rows", lost)
    return Finding("long_sums", worst, limit, worst <= limit and not lost, note=note)


def ones_counted(kernel: Kernel, dtype: DtypeName, setting: Setting) -> Finding:
    """dbeta where every dy is 1: the number of rows, unless the sum stagnates before."""
    rng, beside = inputs.generator(setting.seed, setting.sum_rows), dtype_of(setting.gamma_of(dtype))
    x = inputs.rows(rng, setting.sum_rows, SUM_HIDDEN, dtype_of(dtype))
    problem = draw(rng, x, "normal", "random", beside)
    ones = problem._replace(dy=np.ones_like(problem.dy))
    counted = float(inputs.values(run_kernel(kernel, ones, setting.eps).dbeta)[0])
    off = abs(counted / setting.sum_rows - 1) / unit_roundoff(beside)
    return Finding("ones_counted", counted, float(setting.sum_rows), off <= setting.limit_u)


def _listed(note: str, wrong: Collection[str]) -> str:
    """A note, and the names of the results that are wrong, in their order."""
    names = [name for name in Results._fields if name in wrong]
    return note + (WRONG_ARE + ", ".join(names) if names else "")


def findings(
    kernel: Kernel, dtype: DtypeName, formula: DtypeName, setting: Setting, tick: Callable[[str], None]
) -> Iterator[Finding]:
    """All of them, one at a time; the gradient check in the dtype `formula`."""
    for measure in MEASURES:
        tick(measure.__name__)
        try:
            found = measure(kernel, formula if measure is gradient_check else dtype, setting)
        except FAILURES as error:
            found = broken(measure.__name__, _limit(measure.__name__, dtype, setting), error)
        yield found


def _limit(name: str, dtype: DtypeName, setting: Setting) -> float:
    """The limit of a finding whose measurement raised an error; those that count results have 0."""
    limits = {
        "eps_obeyed": setting.limit_u,
        "long_sums": setting.sum_limit_u(setting.sum_rows, setting.gamma_of(dtype)),
        "ones_counted": float(setting.sum_rows),
    }
    return limits.get(name, 0.0)


MEASURES = (
    gradient_check,
    eps_obeyed,
    long_sums,
    ones_counted,
    repeatable,
    undisturbed,
    inputs_kept,
    into_out,
)

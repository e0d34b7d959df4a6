"""The errors of all results as the mean of a row grows relative to its std: kappa = sqrt(1 + mean^2/var).

dy is N(1,1), since a dy of zero mean hides the effect of a rounded mean; gamma is N(1, 1/4). Errors are the
largest over the rows, in u of the dtype, against the oracle on the rounded rows.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np

from layernorm_backward import inputs, oracle
from layernorm_backward.audit.setting import Finding, Setting, broken
from layernorm_backward.double_double import Floats
from layernorm_backward.dtypes import DTYPE_NAMES, DtypeName, dtype_of, unit_roundoff
from layernorm_backward.errors import error_u
from layernorm_backward.fits import slope
from layernorm_backward.kernels import Kernel
from layernorm_backward.problem import Problem, Results, copied, draw, run_kernel
from layernorm_backward.untrusted.raised import FAILURES

QUANTITIES = Results._fields
ROWS = QUANTITIES[:2]  # as long as x; the others are as long as gamma
POINTS = 4  # fewer give no slope; `fits` says how many give an interval
FLOOR = 4.0  # an error this many times that at kappa = 1 has begun to grow
LOST = 0.1  # a relative error above this grows no further


def findings(
    kernel: Kernel, dtype: DtypeName, setting: Setting, tick: Callable[[str], None]
) -> Iterator[Finding]:
    """Of each quantity the worst error, its growth with kappa, and the kappa up to which it passes."""
    kappas = setting.kappas(dtype)
    errors = np.full((len(kappas), len(QUANTITIES)), np.nan)
    for row, kappa in enumerate(kappas):
        tick(f"kappa {kappa:.2g}")
        problem, exact = posed(dtype, float(kappa), setting)
        try:
            computed = run_kernel(kernel, copied(problem), setting.eps)
            errors[row] = worst_errors(computed, exact)
        except FAILURES as error:
            yield from (broken(f"{name}_error", setting.limit_u, error) for name in QUANTITIES)
            return
    beside = setting.gamma_of(dtype)
    for name, column in zip(QUANTITIES, errors.T, strict=True):
        u = unit_roundoff(dtype_of(dtype if name in ROWS else beside))
        yield from _of_quantity(name, kappas, column, u, setting)


@lru_cache(maxsize=64)
def posed(dtype: DtypeName, kappa: float, setting: Setting) -> tuple[Problem, oracle.Results]:
    """Rows of this kappa with their exact results; cached, since every kernel of an experiment needs them."""
    rng = inputs.generator(setting.seed, DTYPE_NAMES.index(dtype), setting.hidden)
    mean = inputs.mean_of_kappa(kappa)
    x = inputs.rows(rng, setting.rows, setting.hidden, dtype_of(dtype), mean=mean)
    problem = draw(rng, x, "shifted", "random", dtype_of(setting.gamma_of(dtype)))
    return problem, oracle.results(*problem.values(), setting.eps)


def worst_errors(computed: tuple, exact: oracle.Results) -> list[float]:
    """The largest error of a row of each result, in u; infinite where something is not finite."""
    pairs = zip(computed, exact, strict=True)
    return [float(np.nan_to_num(np.max(error_u(*pair)), nan=np.inf, posinf=np.inf)) for pair in pairs]


def growth(kappas: Floats, errors: Floats, u: float) -> tuple[float, float, float]:
    """The power of kappa with which errors grow, and its interval, if any (`fits.slope`).

    Where POINTS or more stand clear of the error at kappa = 1, and are not yet lost, it is theirs. NaN where
    there are not as many in all.
    """
    used = np.isfinite(errors) & (errors > 0) & (errors * u < LOST)
    growing = used & (errors > FLOOR * errors[0])
    used = growing if growing.sum() >= POINTS else used
    if used.sum() < POINTS:
        return np.nan, np.nan, np.nan
    return slope(kappas[used], errors[used])[:3]


def _of_quantity(name: str, kappas: Floats, errors: Floats, u: float, setting: Setting) -> Iterator[Finding]:
    worst, limit = float(errors.max()), setting.limit_u
    at = f"at kappa {kappas[errors.argmax()]:.3g}"
    yield Finding(f"{name}_error", worst, limit, worst <= limit, note=at)
    power, *interval = growth(kappas, errors, u)
    flat = bool(worst <= limit or power <= setting.slope_limit)
    note = "too few errors that are not yet lost" if np.isnan(power) else ""
    yield Finding(f"{name}_slope", power, setting.slope_limit, flat, *interval, note)
    small = np.logical_and.accumulate(errors <= limit)
    reached = float(kappas[small][-1]) if small.any() else 0.0
    yield Finding(f"{name}_kappa", reached, float(kappas[-1]), bool(small.all()))

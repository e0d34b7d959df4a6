"""`audit(kernel, dtype)` measures whether a layer normalization is right, property by property.

The gradient check, the growth of the error with mean/std, eps, long sums, repeatability, results written to
`out`, and the edge cases.
"""

import warnings
from collections.abc import Callable, Collection
from functools import lru_cache
from itertools import chain

import numpy as np

from layernorm_backward import edge_cases, oracle
from layernorm_backward.audit import behaviour, sweep
from layernorm_backward.audit.cases import CASES, case_limit
from layernorm_backward.audit.precision import formula_dtype
from layernorm_backward.audit.setting import STANDARD, Finding, Setting, broken
from layernorm_backward.dtypes import DtypeName
from layernorm_backward.kernels import Kernel
from layernorm_backward.problem import Problem, copied
from layernorm_backward.untrusted.fitting import fitting
from layernorm_backward.untrusted.raised import FAILURES

__all__ = ["STANDARD", "Finding", "Setting", "audit", "steps"]


def audit(
    kernel: Kernel,
    dtype: DtypeName,
    setting: Setting = STANDARD,
    tick: Callable[[str], None] = lambda what: None,
    asked: Collection[DtypeName] = (),
    keep: Callable[[Finding], None] = lambda finding: None,
) -> list[Finding]:
    """The findings about a kernel in one dtype; `tick` is called with the name of each step, `steps` times in
    all, and `keep` with each finding.

    `asked` are all dtypes in which this kernel is audited, if more than this one: the formula is checked in
    `formula_dtype` of them. An exception of the kernel is a finding. ValueError for a dtype that the kernel
    does not take.
    """
    if dtype not in kernel.dtypes:
        raise ValueError(f"{kernel.name} does not take {dtype}: {kernel.unsupported[dtype]}")
    kernel = fitting(kernel)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, about numbers: the findings judge them
        formula = formula_dtype(kernel, {dtype, *asked}, setting)
        found, edges = [], []
        for finding in chain(
            behaviour.findings(kernel, dtype, formula, setting, tick),
            sweep.findings(kernel, dtype, setting, tick),
        ):
            found.append(finding)
            keep(finding)
        for name in _cases(setting):
            edges.append(_edge(kernel, name, dtype, setting, tick))
            keep(edges[-1])
    return [*found, _summary(edges), *edges]


def steps(dtype: DtypeName, setting: Setting) -> int:
    """How often `tick` is called."""
    return len(behaviour.MEASURES) + len(setting.kappas(dtype)) + len(_cases(setting))


def _cases(setting: Setting) -> list[str]:
    return [name for name in CASES if name not in setting.without]


def _summary(edges: list[Finding]) -> Finding:
    judged = [finding for finding in edges if finding.passed is not None]
    failed = sum(not finding.passed for finding in judged)
    return Finding("edge_cases", float(failed), 0.0, not failed, note=f"of {len(judged)}")


def _edge(
    kernel: Kernel, name: str, dtype: DtypeName, setting: Setting, tick: Callable[[str], None]
) -> Finding:
    tick(name)
    problem, exact = _posed(name, dtype, setting.eps, setting.seed, setting.gamma_of(dtype))
    limit = case_limit(name, dtype, setting)
    trial = edge_cases.Trial(kernel, copied(problem), exact, setting.eps, limit)
    try:
        passed, value, said = edge_cases.outcome(name, trial, CASES)
    except FAILURES as error:
        return broken(f"edge_{name}", limit, error)
    if passed is None:
        return Finding(f"edge_{name}", np.nan, limit, None, reason=said)
    return Finding(f"edge_{name}", value, limit, bool(passed), note=said)


@lru_cache(maxsize=64)
def _posed(
    name: str, dtype: DtypeName, eps: float, seed: int, gamma_dtype: DtypeName
) -> tuple[Problem, oracle.Results]:
    return edge_cases.posed(name, dtype, eps, seed, CASES, gamma_dtype)

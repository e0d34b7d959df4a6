"""Right and wrong kernels on one data set, and which tolerance rules reject them.

Right are the stable ways of `passes` and the given kernels; wrong are the mutants and the defective ways.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward import passes
from layernorm_backward.derivations.gradients import Gradients
from layernorm_backward.dtypes import sum_dtype
from layernorm_backward.gradient_check import mutants
from layernorm_backward.kernels import KERNELS, Kernel
from layernorm_backward.problem import Problem, copied, run_kernel
from layernorm_backward.theory.powers import power
from layernorm_backward.tolerances.registry import RULES
from layernorm_backward.tolerances.rules import rejects
from layernorm_backward.tolerances.setting import Errors, errors, norm, setting, sizes
from layernorm_backward.untrusted.checked_kernel import checked

IDEAL = {"ideal": False, "ideal_strict": True}
KINDS = {0.0: "recentred", 1.0: "plain", 2.0: "plain"}  # by the power of kappa
# For a rule that is not strict, or is.
RIGHT = {False: ("recentred", "plain", "unknown"), True: ("recentred",)}


class Cast(NamedTuple):
    """The names of the right ways and kernels and of the wrong ways; all mutants are tried, too."""

    ways: list[str]
    kernels: list[str]
    defects: list[str]


class Outcome(NamedTuple):
    """The verdict of the rules on one kernel on one data set.

    kind: recentred, plain, unknown (no power of kappa is entered for it), or wrong. rejected: the rules that
    reject it; of IDEAL, those whose right kernels it exceeds by the margin.
    """

    kernel: str
    kind: str
    rejected: frozenset[str]


def outcomes(cast: Cast, problem: Problem, eps: float, margin: float, wrong: bool) -> list[Outcome]:
    """Every right kernel on a problem and, with `wrong`, every wrong one."""
    at = setting(problem, eps)
    kinds, gradients = _right(cast, problem, eps)
    if wrong:
        spoiled = _wrong(cast, problem, eps)
        kinds, gradients = kinds | dict.fromkeys(spoiled, "wrong"), gradients | spoiled
    found = {name: errors(part, at.exact) for name, part in gradients.items()}
    allowed = {name: rule.allowed(at) for name, rule in RULES.items()}
    stored = sizes(at, strict=True)[0]
    worst = {name: _worst(part, stored) for name, part in found.items()}
    limits = {ideal: margin * _limit(worst, kinds, strict) for ideal, strict in IDEAL.items()}
    return [
        Outcome(
            name,
            kinds[name],
            frozenset(rule for rule in RULES if rejects(RULES[rule], allowed[rule], part))
            | frozenset(ideal for ideal, limit in limits.items() if np.any(worst[name] > limit)),
        )
        for name, part in found.items()
    ]


def _right(cast: Cast, problem: Problem, eps: float) -> tuple[dict[str, str], dict[str, Gradients]]:
    """The kind and the gradients of each right kernel.

    ValueError where none re-centres, or none is plain.
    """
    dtype = problem.x.dtype
    kernels = [name for name in cast.kernels if dtype.name in KERNELS[name].dtypes]
    found = {name: _by_way(name, problem, eps) for name in cast.ways}
    found |= {f"kernel {name}": _by_kernel(KERNELS[name], problem, eps) for name in kernels}
    powers = {name: power(name.removeprefix("kernel "), dtype.name) for name in found}
    kinds = {name: KINDS.get(powers[name], "unknown") for name in found}
    if absent := {"recentred", "plain"} - set(kinds.values()):
        raise ValueError(f"ways, kernels: none that is {min(absent)} in {dtype.name}; allowed: one or more")
    return kinds, found


def _wrong(cast: Cast, problem: Problem, eps: float) -> dict[str, Gradients]:
    x, gamma, beta, dy = problem
    _, saved = mutants.kernel(mutants.CORRECT).forward(x, gamma, beta, eps)
    found = {name: Gradients(*mutants.kernel(name).backward(dy, saved)) for name in mutants.MUTANTS}
    return found | {name: _by_way(name, problem, eps) for name in cast.defects}


def _by_kernel(kernel: Kernel, problem: Problem, eps: float) -> Gradients:
    return Gradients(*run_kernel(checked(kernel), copied(problem), eps)[1:])


def _by_way(name: str, problem: Problem, eps: float) -> Gradients:
    return Gradients(*passes.run(name, problem, eps, sum_dtype(problem.x.dtype)).results[1:])


def _worst(found: Errors, stored: Gradients) -> NDArray[np.float64]:
    """The largest error of dx, dgamma, dbeta over its size, shape (3,)."""
    pairs = zip(found, stored, strict=True)
    return np.array([np.max(norm(part) / size) for part, size in pairs])


def _limit(worst: dict[str, NDArray], kinds: dict[str, str], strict: bool) -> NDArray[np.float64]:
    """The largest of `_worst` over the right kernels, or over those that re-centre."""
    return np.max([part for name, part in worst.items() if kinds[name] in RIGHT[strict]], axis=0)

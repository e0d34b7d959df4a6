"""The kinds of rules, and the errors that each allows.

`one_line` is what the paper recommends. u is the roundoff of the result's dtype, u_s that of the sums,
r = 1/sqrt(var + eps); kappa = sqrt(1 + (mean*r)^2) for a plain kernel, 1 for one that re-centres (`strict`):

    norm(error of dx)     <= (2*u + 16*kappa*u_s) * r * norm(g)                                      each row
    norm(error of dgamma) <= 2*u * norm(dgamma, all dy*x_hat) + 16*u_s * norm(sum of kappa*|dy|*(1 + |x_hat|))
    norm(error of dbeta)  <= 2*u * norm(dbeta) + 16*u_s * norm(sum of |dy|)

16: the error of a mean by tree sums is at most (log2(D) + 1)*u_s*kappa, in units of 1/r. It changes dx by at
most this times r*norm(g), since norm(c2 + c1*x_hat) <= norm(g); log2(D) + 1 <= 16 up to D = 32768. 2:
rounding the result changes dx by at most u times its own norm; rounding a saved x_hat, which enters both c2
and its product with c2, by at most 2*u*r*norm(g), reached only where dx is close to 0.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from layernorm_backward.derivations.gradients import Gradients
from layernorm_backward.double_double import Floats
from layernorm_backward.dtypes import sum_dtype, unit_roundoff
from layernorm_backward.theory.kernel_bounds import Model, for_model, pairwise
from layernorm_backward.theory.mean_bounds import STATISTICS
from layernorm_backward.tolerances.setting import Errors, Setting, norm, sizes

KAPPA_FACTOR, RESULT_FACTOR = 16.0, 2.0
Measure = Literal["element", "largest", "norm"]
MEASURES: dict[Measure, Callable[[Floats], Floats]] = {"element": np.abs, "largest": np.max, "norm": norm}


@dataclass(frozen=True)
class Rule:
    """The measure of the error (each element, the largest one, or a row's 2-norm), and its limit.

    strict: the rule is for kernels that re-centre the mean.
    """

    measure: Measure
    allowed: Callable[[Setting], Gradients]
    strict: bool = False


def rejects(rule: Rule, allowed: Gradients, found: Errors) -> bool:
    """Whether any gradient exceeds `allowed`, which is `rule.allowed(setting)`, evaluated by the caller."""
    measured = (MEASURES[rule.measure](part) for part in found)
    return any(not np.all(size <= limit) for size, limit in zip(measured, allowed, strict=True))


def one_line(strict: bool) -> Rule:
    """The rule in the docstring of this module."""

    def allowed(at: Setting) -> Gradients:
        dtype = at.problem.x.dtype
        rounding = RESULT_FACTOR * unit_roundoff(dtype)
        growth = KAPPA_FACTOR * unit_roundoff(sum_dtype(dtype))
        return Gradients(*(rounding * a + growth * b for a, b in zip(*sizes(at, strict), strict=True)))

    return Rule("norm", allowed, strict)


def full_bound(strict: bool) -> Rule:
    """The bound of `kernel_bounds` for sums in NumPy's order; if not strict, with Chan's variance."""
    model = Model(pairwise, STATISTICS["recentred" if strict else "chan"], rounds_x_hat=not strict)

    def allowed(at: Setting) -> Gradients:
        found = for_model(model, at.problem, at.moments, at.eps)
        pairs = zip(found[1:], at.exact, strict=True)
        return Gradients(*(limit * norm(exact.hi) for limit, exact in pairs))

    return Rule("norm", allowed, strict)


def fixed(rtol: dict[str, float], atol: dict[str, float]) -> Rule:
    """atol + rtol*|exact| for each element, by the dtype of x."""

    def allowed(at: Setting) -> Gradients:
        name = at.problem.x.dtype.name
        return Gradients(*(atol[name] + rtol[name] * np.abs(part.hi) for part in at.exact))

    return Rule("element", allowed)


def relative(factor: float, floor: float) -> Rule:
    """`factor` times the largest error of the kernel PLAIN on the same data, plus `floor`."""
    return Rule("largest", lambda at: Gradients(*(factor * np.max(part) + floor for part in at.plain)))

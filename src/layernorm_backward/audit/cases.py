"""Edge cases of the audit beyond those of the table edge_cases: odd sizes, few and short rows, one axis and
four, and a gamma or dy that differs from x in layout or values.

They detect loops that lose the remainder after whole blocks of any length, and backward passes that assume
dy has the layout of x, skip zeros, or confuse the last axis with the second.
"""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from layernorm_backward import edge_cases, oracle
from layernorm_backward.audit.setting import Setting
from layernorm_backward.audit.short_rows import SHORT, against_terms, alternating
from layernorm_backward.double_double import Floats
from layernorm_backward.dtypes import DtypeName
from layernorm_backward.edge_cases import Case, Outcome, Trial, as_given
from layernorm_backward.problem import Problem

MANY = 1031
WIDTHS = range(33, 48)  # every remainder after whole blocks of up to 16
LAST = 7
FEW = (2, 3)
FAINT = 2.0**-8
Change = Callable[[Problem], Problem]
Judge = Callable[[Trial], Outcome]


def changed(change: Change, judge: Judge = as_given) -> Judge:
    """A judge, by default the usual one, applied after a change of the problem."""

    def judge_changed(trial: Trial) -> Outcome:
        problem = change(trial.problem)
        exact = oracle.results(*problem.values(), trial.eps)
        return judge(trial._replace(problem=problem, exact=exact))

    return judge_changed


def worst_of(changes: Mapping[str, Change], judge: Judge = as_given) -> Judge:
    """A judge applied after each of the changes; the worst outcome is returned."""

    def judge_all(trial: Trial) -> Outcome:
        found = {what: changed(change, judge)(trial) for what, change in changes.items()}
        worst = max(found, key=lambda what: found[what].value)
        return found[worst]._replace(reason=f"worst at {worst}; {found[worst].reason}")

    return judge_all


def narrowed(widths: range) -> dict[str, Change]:
    """Changes that keep only the first columns, one for each width."""
    return {f"D = {width}": partial(_narrowed, width=width) for width in widths}


def _narrowed(problem: Problem, width: int) -> Problem:
    return Problem(*(array[..., :width].copy() for array in problem))


def _first_rows(problem: Problem, rows: int) -> Problem:
    return problem._replace(x=problem.x[:rows].copy(), dy=problem.dy[:rows].copy())


def _normal(deviates: Floats, u: float) -> Floats:
    return deviates


def _far(deviates: Floats, u: float) -> Floats:
    return 2.0**-10 / u + deviates


def _last_rows_count(problem: Problem) -> Problem:
    """All but the LAST rows of dy are small, so that a missing row is detected in 16 bits, too."""
    dy = problem.dy.copy()
    dy[:-LAST] *= dy.dtype.type(FAINT)
    return problem._replace(dy=dy)


def _transposed(problem: Problem) -> Problem:
    return problem._replace(dy=np.asfortranarray(problem.dy))


def _expanded(problem: Problem) -> Problem:
    return problem._replace(dy=np.broadcast_to(np.ones((), problem.dy.dtype), problem.dy.shape))


def _sparse(problem: Problem) -> Problem:
    dy = np.zeros_like(problem.dy)
    dy[::2, 3] = problem.dy[::2, 3]
    return problem._replace(dy=dy)


def _with_zeros(problem: Problem) -> Problem:
    gamma: NDArray = -problem.gamma
    gamma[::4] = 0
    return problem._replace(gamma=gamma)


def _alike(problem: Problem) -> Problem:
    return problem._replace(gamma=np.full_like(problem.gamma, 1.5))


_WIDTHS = f"D = {WIDTHS[0]} to {WIDTHS[-1]}"
FURTHER: dict[str, Case] = {
    "leading_axes": Case("x of three axes", (3, 5, 64), _normal, as_given),
    "widths": Case(_WIDTHS, (16, WIDTHS[-1]), _normal, worst_of(narrowed(WIDTHS))),
    "widths_far": Case(f"{_WIDTHS}, mean 2^-10/u", (16, WIDTHS[-1]), _far, worst_of(narrowed(WIDTHS))),
    "width_4099": Case("D = 4099", (4, 4099), _normal, as_given),
    "rows_1031": Case(f"{MANY} rows, the last count most", (MANY, 16), _normal, changed(_last_rows_count)),
    "dy_transposed": Case("dy in Fortran order, x not", (8, 64), _normal, changed(_transposed)),
    "dy_expanded": Case("dy is one 1, broadcast", (8, 64), _normal, changed(_expanded)),
    "dy_sparse": Case("dy 0 but for an element of every other row", (8, 64), _normal, changed(_sparse)),
    "gamma_zeros": Case("gamma with zeros", (8, 64), _normal, changed(_with_zeros)),
    "gamma_uniform": Case("gamma 1.5 throughout", (8, 64), _normal, changed(_alike)),
    "widths_short": Case(
        f"D = {SHORT[0]} to {SHORT[-1]}",
        (16, SHORT[-1]),
        alternating,
        worst_of(narrowed(SHORT), against_terms),
    ),
    "few_rows": Case(
        f"{' or '.join(map(str, FEW))} rows",
        (max(FEW), 64),
        _normal,
        worst_of({f"{rows} rows": partial(_first_rows, rows=rows) for rows in FEW}),
    ),
    "one_axis": Case("x of one axis", (64,), _normal, as_given),
    "four_axes": Case("x of four axes", (2, 3, 4, 64), _normal, as_given),
}
_KNOWN = {  # the value of each is an error of a single run
    name: case._replace(judge=as_given) if name.startswith("scale_") else case
    for name, case in edge_cases.CASES.items()
    if case.shape[-1] not in edge_cases.ODD_WIDTHS  # for which FURTHER has more
}
CASES: dict[str, Case] = _KNOWN | FURTHER


def case_limit(name: str, dtype: DtypeName, setting: Setting) -> float:
    """The largest error in u that passes."""
    if name == "rows_1031":
        return max(setting.sum_limit_u(MANY, one) for one in (dtype, setting.gamma_of(dtype)))
    return setting.limit_u if name in FURTHER else setting.edge_limit_u

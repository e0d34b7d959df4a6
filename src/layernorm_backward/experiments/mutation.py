"""Which faults in a backward pass does each gradient check catch, on which data, at which tolerance?

Every mutant x check x setting x data set, over several draws. A setting multiplies the check's tolerances.
The checks are our restatements; the checks of the packages `executed` run too, at their defaults. The
mutant `none` is the unspoiled kernel: caught, it is a false alarm. rel_error is how wrong the mutant is.
"""

from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field
from tqdm import tqdm

from layernorm_backward.experiments._arguments import (
    Count,
    Distinct,
    Named,
    Names,
    Positive,
    Seed,
    Several,
    each_of,
)
from layernorm_backward.gradient_check import packages
from layernorm_backward.gradient_check.cases import Arguments, Case, case
from layernorm_backward.gradient_check.datasets import GAMMAS, ROWS, UPSTREAMS, DataSet
from layernorm_backward.gradient_check.mutants import CORRECT, MUTANTS, kernel
from layernorm_backward.gradient_check.rules import RULES, Rule
from layernorm_backward.inputs import values
from layernorm_backward.records.tabulate import table

Draw = tuple[Seed, Annotated[tuple[Count, ...], Field(min_length=2)]]
OWN = "own"  # the upstream gradient of a check that differentiates y: it draws its own


class Seen(NamedTuple):
    """Of one mutant in one draw: how wrong it is, its error over the tolerance, what the package says."""

    rel_error: float
    error_over_tolerance: float
    evaluations: int
    package: bool | None


def run(
    *,
    checks: Annotated[Names, each_of(RULES)],
    rows: Annotated[Names, each_of(ROWS)],
    gammas: Annotated[Names, each_of(GAMMAS)],
    upstreams: Annotated[Names, each_of(UPSTREAMS)],
    settings: Named[Positive],
    draws: Several[Draw],
    more_draws: Annotated[dict[str, Distinct[Draw]], each_of("checks")],
    executed: Annotated[Distinct[str], each_of(packages.CATCHES)],
) -> pd.DataFrame:
    """One row per mutant, check, setting and data set; `caught` where it is caught in every draw.

    draws: (seed, shape), for every check; more_draws: those that a check sees beyond them;
    executed: packages whose own checks are run as well, where they are installed.
    """
    cells = [
        (check, DataSet(row, gamma, upstream))
        for check in checks
        for row in rows
        for gamma in gammas
        for upstream in (upstreams if RULES[check].of == "loss" else [OWN])
    ]
    records: list[dict[str, Any]] = []
    for check, data in tqdm(cells, desc="mutation", mininterval=1):
        its_draws = [*draws, *more_draws.get(check, [])]
        drawn = [_measure(RULES[check], data, shape, seed, executed) for seed, shape in its_draws]
        for mutant in drawn[0]:
            seen = [found[mutant] for found in drawn]
            key = {"mutant": mutant, "check": check, "data": data.name}
            records += [key | row for row in _judged(seen, settings)]
    return table(records, "mutation")


def _measure(
    rule: Rule, data: DataSet, shape: tuple[int, ...], seed: int, executed: list[str]
) -> dict[str, Seen]:
    """Every mutant, and the unspoiled kernel, under one check on one data set."""
    drawn = data if data.upstream != OWN else data._replace(upstream="normal")
    at = case(drawn, rule.of, rule.dtype, kernel(CORRECT), shape, seed)
    with np.errstate(divide="ignore", invalid="ignore"):
        judge = rule.prepare(at)
        runs = rule.package in executed and packages.version(rule.package)
        right, evaluations = _gradients(at, CORRECT), len(at.forward.kept)
        found = {}
        for name in (CORRECT, *MUTANTS):
            backward = kernel(name).backward
            ratio, error = judge(backward), _rel_error(_gradients(at, name), right)
            verdict = packages.CATCHES[rule.package](at, backward) if runs else None
            found[name] = Seen(error, ratio, evaluations, verdict)
        return found


def _gradients(at: Case, name: str) -> Arguments:
    """dx, dgamma, dbeta of a mutant for the data's own dy."""
    return kernel(name).backward(at.at.dy, at.forward(*at.arguments, at.eps)[1])


def _rel_error(found: Arguments, right: Arguments) -> float:
    """The largest relative error, in the 2-norm, of a row of dx, of dgamma, of dbeta."""
    errors = []
    for one, other in zip(map(values, found), map(values, right), strict=True):
        size = np.sqrt((other * other).sum(axis=-1))
        gap = np.sqrt(((one - other) ** 2).sum(axis=-1))
        errors.append(np.max(np.divide(gap, size, out=np.where(gap == 0, 0.0, np.inf), where=size > 0)))
    return float(max(errors))


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _judged(seen: list[Seen], settings: dict[str, float]) -> Iterator[dict[str, Any]]:
    """One row per setting; a package's own check has been run at the default tolerances alone."""
    ratios = np.array([one.error_over_tolerance for one in seen])
    for setting, factor in settings.items():
        caught = int((~(ratios <= factor)).sum())
        executed = factor == 1 and seen[0].package is not None
        yield {
            "setting": setting,
            "caught": caught == len(seen),
            "caught_draws": caught,
            "draws": len(seen),
            "rel_error": _short(min(one.rel_error for one in seen)),
            "error_over_tolerance": _short(ratios.min() / factor),
            "evaluations": max(one.evaluations for one in seen),
            "executed": executed,
            "package_caught_draws": float(sum(one.package for one in seen)) if executed else np.nan,
        }

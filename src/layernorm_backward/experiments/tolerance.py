"""Which tolerance tells right gradients from wrong: all of `tolerances`, on right and wrong kernels.

A cell is a dtype, kappa and standard deviation of the rows; its data sets differ in the upstream gradient, at
one D; right kernels see other D too, where std is 1. dx, dgamma, dbeta are judged against the exact result.

    false_alarms     share of right kernels and data sets that are rejected          passed: none
    killed           share of wrong kernels that are rejected on some data set       passed: all that can be
    plain_rejected   share of right kernels that do not re-centre, likewise          passed: all that can be

A strict rule takes only the kernels that re-centre for right, and only it has plain_rejected; a kernel
without an entry in `theory/powers.py` counts for the other rules alone. A kernel can be rejected where its
error is over `margin` times that of every right kernel on the same data: those are in the rules ideal and
ideal_strict. Intervals: Clopper and Pearson's. Rows that are constant, overflow or have another kappa once
they are rounded make no data set.
"""

from collections.abc import Iterable
from functools import cache
from itertools import product
from typing import Annotated, Any

import pandas as pd
from scipy.stats import binomtest
from tqdm import tqdm

from layernorm_backward import inputs, oracle
from layernorm_backward.dtypes import DTYPE_NAMES, DtypeName, dtype_of
from layernorm_backward.experiments._arguments import (
    Count,
    Distinct,
    Eps,
    Kappa,
    Names,
    Positive,
    RunnableKernels,
    Seed,
    Several,
    Share,
    each_of,
)
from layernorm_backward.experiments._rows import kappa_mismatch
from layernorm_backward.experiments._trials import IDEAL, RIGHT, Cast, Outcome, outcomes
from layernorm_backward.passes import ALGORITHMS
from layernorm_backward.problem import Problem, draw
from layernorm_backward.records.tabulate import table
from layernorm_backward.tolerances.registry import RULES

TO_REJECT = {False: {"killed": "wrong"}, True: {"killed": "wrong", "plain_rejected": "plain"}}


def run(
    *,
    ways: Annotated[Names, each_of(ALGORITHMS)],
    kernels: RunnableKernels,
    defects: Annotated[Distinct[str], each_of(ALGORITHMS)],
    dtypes: Several[DtypeName],
    kappas: Several[Kappa],
    stds: Several[Positive],
    upstreams: Several[inputs.UpstreamKind],
    hidden: Count,
    hidden_sweep: Distinct[Count],
    rows: Count,
    eps: Eps,
    margin: Positive,
    confidence: Share,
    seed: Seed,
) -> pd.DataFrame:
    """One row per rule, dtype, kappa, std and property."""
    cells = [(dtype, kappa, std) for dtype in dtypes for kappa in kappas for std in stds]
    cast = Cast(ways, kernels, defects)
    records: list[dict[str, Any]] = []
    for dtype, kappa, std in tqdm(cells, desc="tolerance", mininterval=1):
        others = hidden_sweep if std == 1 else []
        sets = [(hidden, upstream) for upstream in upstreams] + [(size, upstreams[0]) for size in others]
        found: list[Outcome] = []
        for size, upstream in sets:
            problem = _problem((dtype, kappa, std), size, upstream, rows, seed)
            if problem is not None:
                found += outcomes(cast, problem, eps, margin, wrong=size == hidden)
        cell = {"dtype": dtype, "kappa": kappa, "std": std}
        records += _rows(cell, found, confidence)
    return table(records, "tolerance")


def _problem(
    cell: tuple[DtypeName, float, float], hidden: int, upstream: str, rows: int, seed: int
) -> Problem | None:
    """None where the rounded rows do not have the kappa of the cell."""
    dtype, kappa, std = cell
    rng = inputs.generator(seed, DTYPE_NAMES.index(dtype), hidden)
    mean = std * inputs.mean_of_kappa(kappa)
    x = inputs.rows(rng, rows, hidden, dtype_of(dtype), mean=mean, std=std)
    reason = kappa_mismatch(oracle.moments(inputs.values(x)), kappa, dtype)
    return None if reason else draw(rng, x, upstream, "random")


def _rows(cell: dict[str, Any], found: list[Outcome], confidence: float) -> Iterable[dict[str, Any]]:
    strict = {name: rule.strict for name, rule in RULES.items()} | IDEAL
    if not found:
        reason = f"{cell['dtype']} holds no rows of kappa {cell['kappa']:g} and std {cell['std']:g}"
        for rule, name in product(RULES, ("false_alarms", "killed")):
            yield cell | {"rule": rule, "property": name, "reason": reason}
        return
    for rule in RULES:
        alarms = [rule in it.rejected for it in found if it.kind in RIGHT[strict[rule]]]
        yield cell | {"rule": rule, "property": "false_alarms"} | _share(alarms, not any(alarms), confidence)
    for rule in strict:
        ideal = next(name for name in IDEAL if IDEAL[name] == strict[rule])
        for name, kind in TO_REJECT[strict[rule]].items():
            yield cell | {"rule": rule, "property": name} | _kills(found, kind, rule, ideal, confidence)


def _kills(found: list[Outcome], kind: str, rule: str, ideal: str, confidence: float) -> dict[str, Any]:
    """Kernels of a kind that the rule rejects on some data set; passed: all that the ideal rule rejects."""
    names = dict.fromkeys(it.kernel for it in found if it.kind == kind)
    killed, possible = (
        {it.kernel for it in found if it.kind == kind and name in it.rejected} for name in (rule, ideal)
    )
    return _share([name in killed for name in names], possible <= killed, confidence)


def _share(hits: list[bool], passed: bool, confidence: float) -> dict[str, Any]:
    low, high = _interval(sum(hits), len(hits), confidence)
    return {
        "value": sum(hits) / len(hits),
        "value_low": low,
        "value_high": high,
        "cases": len(hits),
        "passed": passed,
    }


@cache
def _interval(hits: int, cases: int, confidence: float) -> tuple[float, float]:
    found = binomtest(hits, cases).proportion_ci(confidence)
    return float(found.low), float(found.high)

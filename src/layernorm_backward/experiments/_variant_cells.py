"""One cell of kernel_costs: its variants checked, then timed against the default on the same arrays."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from layernorm_backward import stopwatch
from layernorm_backward.experiments import _variant_checks as check
from layernorm_backward.experiments._cells import Cell, keys
from layernorm_backward.experiments._rounds import joined
from layernorm_backward.experiments._variants import DEFAULT, PAID, skip_reason
from layernorm_backward.kernels.numba_plan import Plan
from layernorm_backward.timing import difference
from layernorm_backward.timing.pool import Buffers
from layernorm_backward.timing.timed import labelled, seed_of, times, too_many

AGAIN = "again"  # the default a second time, for the noise
NO_PARTNER = "the default's results are wrong"
Rows = dict[str, dict[str, Any]]  # the columns measured, by variant


class Checks(NamedTuple):
    """How many rows are checked for errors and for equal bits; the error limit; kappa by dtype; the seed."""

    error_rows: int
    bit_rows: int
    limit_u: float
    kappas: dict[str, float]
    seed: int


def measured(
    cell: Cell,
    made: dict[str, Plan],
    arrays: Buffers,
    checks: Checks,
    how: dict[str, Any],
    paid_at_least: int,
) -> tuple[Rows, list[pd.DataFrame]]:
    """The columns of each plan in `made`, and the samples.

    `how` is for `stopwatch.compare`; the variants of PAID have `paid_at_least` repetitions.
    """
    if too_many(cell.threads):
        return {name: {"reason": too_many(cell.threads)} for name in made}, []
    reasons = {name: skip_reason(name, plan, made[DEFAULT], cell.direction) for name, plan in made.items()}
    skipped = {name: {"reason": reason} for name, reason in reasons.items() if reason}
    plans = {name: plan for name, plan in made.items() if name not in skipped}
    with stopwatch.threads(cell.threads):
        calls = check.calls(cell.direction, arrays, plans)
        known_s, rows = _checked(cell, plans, calls, arrays, checks)
        right = [name for name in plans if not rows[name]["reason"]]
        if DEFAULT not in right:
            return skipped | {name: {"reason": row["reason"] or NO_PARTNER} for name, row in rows.items()}, []
        timed = {name: calls[name] for name in right} | {AGAIN: calls[DEFAULT]}
        known_s[AGAIN] = known_s[DEFAULT]
        samples = _compared(timed, known_s, seed_of(checks.seed, cell), how, paid_at_least)
    costs = _costs(samples, right)
    rows = {name: row | costs.get(name, {}) for name, row in rows.items()}
    return skipped | rows, [labelled(samples, **keys(cell))]


def _compared(
    calls: Mapping[str, stopwatch.Call],
    known_s: Mapping[str, float],
    seed: int,
    how: dict[str, Any],
    paid_at_least: int,
) -> pd.DataFrame:
    """All calls in turn, then the default and the variants of PAID until these have their repetitions."""
    samples = stopwatch.compare(calls, known_s=known_s, seed=seed, **how)
    paid = {name: call for name, call in calls.items() if name in (DEFAULT, AGAIN, *PAID)}
    left = paid_at_least - min(samples["name"].value_counts()[list(paid)])
    if left <= 0 or not set(PAID) & set(paid):
        return samples
    more = stopwatch.compare(paid, repeats=int(left), known_s=known_s, seed=seed + 1)
    return joined([samples, more])


def _checked(
    cell: Cell,
    plans: Mapping[str, Plan],
    calls: Mapping[str, stopwatch.Call],
    arrays: Buffers,
    checks: Checks,
) -> tuple[dict[str, float], Rows]:
    """Seconds of a first run, and the columns of the checks by plan; the reason is "" where all is right."""
    agreed = check.agreements(cell.direction, arrays, checks.bit_rows, plans)
    exact = check.sampled(cell.direction, arrays, checks.error_rows)
    first = {name: check.first_run(call, arrays.out, exact) for name, call in calls.items()}
    kappa = checks.kappas[cell.dtype]
    variants = tuple(name for name in plans if name != DEFAULT)
    far = check.errors_at(kappa, cell.direction, cell.dtype, cell.hidden, checks.seed, variants)
    rows = {
        name: {
            "error_u_max": error_u,
            "kappa": kappa,
            "kappa_error_u_max": far.get(name, np.nan),
            "bits_equal": agreed[name].bits_equal,
            "reason": check.wrong(max(error_u, agreed[name].difference_u), checks.limit_u),
        }
        for name, (_, error_u) in first.items()
    }
    return {name: seconds for name, (seconds, _) in first.items()}, rows


def _costs(samples: pd.DataFrame, names: list[str]) -> Rows:
    """The columns of times and costs; the noise of a variant is taken over its own repetitions only."""
    rows = {}
    for name in names:
        its = samples[samples["repeat"].isin(samples.loc[samples["name"] == name, "repeat"])]
        noise = difference.noise(stopwatch.ratio(its, DEFAULT, AGAIN))
        found = stopwatch.ratio(its, DEFAULT, name)
        cost = {"cost": found.median - 1, "cost_low": found.low - 1, "cost_high": found.high - 1}
        rows[name] = times(samples, name) | cost | {"noise": noise}
    return rows

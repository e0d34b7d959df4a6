"""Error of dx and dgamma by what the forward pass saves of the mean and how the backward pass uses it.

Rows are Gaussian, of unit variance and a mean within a factor 1.2 of sqrt(kappa^2 - 1), so that no cell hangs
on how one number rounds; gamma is N(1, 1/4). The forward pass is a way of `passes`; what is saved, and how it
is used, are names of `saving`. Errors are in u of the dtype of x, median and maximum over the rows. eta_u_max
is the largest mean of the x_hat that was used, in u of the sums; eta_bound_u is its bound by `saving_bounds`.
Bytes are those of the whole cell, x and gamma left out. x_1 can stand for the mean, and rstd be corrected,
only where the backward pass re-centres.
"""

from typing import Annotated, Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from layernorm_backward import inputs, oracle, saving
from layernorm_backward.dtypes import DTYPE_NAMES, DtypeName, dtype_of, round_to, sum_dtype, unit_roundoff
from layernorm_backward.errors import error_u, most_over_bounds
from layernorm_backward.experiments._arguments import Count, Eps, Kappa, Names, Seed, Several, each_of
from layernorm_backward.experiments._rows import kappa_mismatch
from layernorm_backward.passes import ALGORITHMS
from layernorm_backward.problem import Problem, draw
from layernorm_backward.records.tabulate import table
from layernorm_backward.saving import BackwardName
from layernorm_backward.theory.saving_bounds import eta_bound

SPREAD = 1.2


def run(
    *,
    saved: Annotated[Names, each_of(saving.SAVED)],
    dtypes: Several[DtypeName],
    forwards: Annotated[Names, each_of(ALGORITHMS)],
    backwards: Several[BackwardName],
    kappas: Several[Kappa],
    upstream: inputs.UpstreamKind,
    hidden: Count,
    rows: Count,
    eps: Eps,
    seed: Seed,
) -> pd.DataFrame:
    """One row per dtype, kappa, forward pass, what it saves, and backward pass."""
    records: list[dict[str, Any]] = []
    for dtype in tqdm(dtypes, desc="saved_statistics", mininterval=1):
        for kappa in kappas:
            rng = inputs.generator(seed, DTYPE_NAMES.index(dtype), hidden)
            means = inputs.mean_of_kappa(kappa) * rng.uniform(1 / SPREAD, SPREAD, (rows, 1))
            x = round_to(means + rng.standard_normal((rows, hidden)), dtype_of(dtype))
            problem = draw(rng, x, upstream, "random")
            cell = {"dtype": dtype, "kappa": kappa}
            records += [cell | found for found in _cell(problem, kappa, forwards, saved, backwards, eps)]
    return table(records, "saved_statistics")


def _cell(
    problem: Problem,
    kappa: float,
    forwards: list[str],
    saved: list[str],
    backwards: list[BackwardName],
    eps: float,
) -> list[dict[str, Any]]:
    x, gamma, _, dy = problem.values()
    moments = oracle.moments(x)
    keys = [
        {"forward": forward, "saved": name, "backward": how}
        for forward in forwards
        for name in saved
        for how in backwards
        if _sensible(name, how, forward, problem)
    ]
    reason = kappa_mismatch(moments, kappa, problem.x.dtype.name)
    if reason:
        return [key | {"reason": reason} for key in keys]
    exact = oracle.backward(x, gamma, dy, eps)
    return [key | _measure(**key, problem=problem, moments=moments, exact=exact, eps=eps) for key in keys]


def _sensible(saved: str, backward: BackwardName, forward: str, problem: Problem) -> bool:
    """rstd is corrected where it belongs to the very mean that was saved; x_1 is no mean."""
    if backward == "recentred_rstd":
        return forward == "two_pass" and saved == f"mean_{sum_dtype(problem.x.dtype).name}"
    return saved != "first_element" or backward == "recentred"


def _measure(
    *,
    forward: str,
    saved: str,
    backward: BackwardName,
    problem: Problem,
    moments: oracle.Moments,
    exact: oracle.Gradients,
    eps: float,
) -> dict[str, Any]:
    kept = saving.keep(saved, forward, problem, eps)
    overflown = int(sum(np.sum(~np.isfinite(offset.astype(np.float64))) for offset in kept.offsets))
    if overflown:
        return {"reason": f"{overflown} of {len(problem.x)} means overflow in {kept.offsets[0].dtype.name}"}
    found = saving.backward(backward, kept, problem)
    sum_u = unit_roundoff(sum_dtype(problem.x.dtype))
    dx_error = error_u(found.dx, exact.dx)
    bound = eta_bound(saved, forward, backward, problem.x, moments)
    return {
        "dx_error_u_median": float(np.median(dx_error)),
        "dx_error_u_max": float(np.max(dx_error)),
        "dgamma_error_u": float(error_u(found.dgamma, exact.dgamma)),
        "eta_u_max": float(np.max(found.eta)) / sum_u,
        "eta_bound_u": float(np.max(bound)) / sum_u,
        "eta_bound_ratio_max": most_over_bounds(found.eta, bound),
        "saved_extra_bytes": kept.extra_bytes,
    }

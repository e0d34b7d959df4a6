"""What eps does to the function and to its gradient, by where it stands and by the variance of the row.

Rows are Gaussian with mean 0 and the given variance (0: rows of zeros), gamma is 1. dy is of the usual kinds,
or `aligned`: nearly along 1 and x_hat, so that dx keeps little of it. Each placement has its own gradient:

    inside     x_hat = (x - mean)/sqrt(var + eps)
    outside    x_hat = (x - mean)/(sqrt(var) + eps)
    none       x_hat = (x - mean)/sqrt(var)
    stored     inside, with eps rounded to the storage dtype

All are evaluated in float64 for rows rounded to the dtype: its error is near 1e-15, and changes from 1e-9 on
are of interest, hence no double-double. *_change is the 2-norm of the difference to `none` over the norm of
`none`, *_from_inside the same against `inside`: of x_hat and dx the median over the rows, of dgamma the one
number. dx_first_order is the median of share*sqrt(1/4 + c2^2/mean((g - c1 - x_hat*c2)^2)), which dx_change is
to first order in the share eps/(var + eps). dx_gain is the largest rms(dx)/rms(dy). finite: every dx is a
finite number of the storage dtype.
"""

from typing import Annotated, Any, NamedTuple, get_args

import numpy as np
import pandas as pd

from layernorm_backward import inputs
from layernorm_backward.double_double import Floats
from layernorm_backward.dtypes import DTYPE_NAMES, DtypeName, dtype_of, round_to
from layernorm_backward.experiments._arguments import (
    Count,
    Names,
    NotNegative,
    Positive,
    Seed,
    Several,
    each_of,
)
from layernorm_backward.records.tabulate import table

PLACEMENTS = ("inside", "outside", "none", "stored")


class Data(NamedTuple):
    """centred rows and dy (N, D) and variance (N, 1), all float64, of data rounded to a dtype."""

    centred: Floats
    dy: Floats
    variance: Floats


class Outcome(NamedTuple):
    """x_hat and dx (N, D), dgamma (1, D)."""

    x_hat: Floats
    dx: Floats
    dgamma: Floats


def run(
    *,
    dtypes: Several[DtypeName],
    eps: Several[NotNegative],
    variances: Several[NotNegative],
    upstreams: Annotated[Names, each_of((*get_args(inputs.UpstreamKind), "aligned"))],
    spread: Positive,
    rows: Count,
    hidden: Count,
    seed: Seed,
) -> pd.DataFrame:
    """One row per placement, dtype, upstream, eps and variance; `spread` is that of the aligned dy."""
    records: list[dict[str, Any]] = []
    for dtype in dtypes:
        for upstream in upstreams:
            for variance in variances:
                rng = inputs.generator(seed, DTYPE_NAMES.index(dtype))
                x = inputs.rows(rng, rows, hidden, dtype_of(dtype), std=float(np.sqrt(variance)))
                kind = inputs.upstream(rng, upstream, x) if upstream != "aligned" else None
                data = _data(x, inputs.aligned(rng, x, spread) if kind is None else kind)
                for value in eps:
                    keys = {"dtype": dtype, "upstream": upstream, "eps": value, "variance": variance}
                    records += _cell(data, keys)
    return table(records, "eps_placement")


def evaluate(placement: str, data: Data, eps: float) -> Outcome:
    """Function and gradient of one placement; NaN or infinite where they do not exist."""
    deviation = np.sqrt(data.variance)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        outside = placement == "outside"
        rstd = 1 / (deviation + eps) if outside else 1 / np.sqrt(data.variance + eps)
        slope = (deviation + eps) / deviation if outside else 1.0  # d(1/rstd)/d(x) over that of `inside`
        x_hat = data.centred * rstd
        c1, c2 = _mean(data.dy), _mean(data.dy * x_hat)
        dx = rstd * (data.dy - c1 - x_hat * c2 * slope)
        return Outcome(x_hat, dx, np.sum(data.dy * x_hat, axis=0, keepdims=True))


def _data(x: np.ndarray, dy: np.ndarray) -> Data:
    exact = inputs.values(x)
    centred = exact - _mean(exact)
    return Data(centred, inputs.values(dy), _mean(centred * centred))


def _cell(data: Data, keys: dict[str, Any]) -> list[dict[str, Any]]:
    dtype = dtype_of(keys["dtype"])
    stored = float(round_to(np.array(keys["eps"]), dtype))
    used = {"inside": keys["eps"], "outside": keys["eps"], "none": 0.0, "stored": stored}
    found = {placement: evaluate(placement, data, used[placement]) for placement in PLACEMENTS}
    common = {
        "eps_share": float(np.median(keys["eps"] / (data.variance + keys["eps"]))),
        "dx_first_order": _first_order(data, found["none"].x_hat, keys["eps"]),
    }
    return [
        keys
        | {"placement": placement, "eps_used": used[placement], "reason": ""}
        | common
        | _changes(outcome, found["none"], "change")
        | _changes(outcome, found["inside"], "from_inside")
        | {
            "dx_gain": float(np.max(np.sqrt(_mean(outcome.dx**2) / _mean(data.dy**2)))),
            "finite": bool(np.isfinite(inputs.values(round_to(outcome.dx, dtype))).all()),
        }
        for placement, outcome in found.items()
    ]


def _first_order(data: Data, x_hat: Floats, eps: float) -> float:
    c1, c2 = _mean(data.dy), _mean(data.dy * x_hat)
    kept = _mean((data.dy - c1 - x_hat * c2) ** 2)
    return float(np.median(eps / (data.variance + eps) * np.sqrt(0.25 + c2**2 / kept)))


def _changes(outcome: Outcome, other: Outcome, name: str) -> dict[str, float]:
    """The median over the rows of norm(difference)/norm(other) of each part; NaN where none exists."""
    changes = {}
    for part, one, two in zip(("y", "dx", "dgamma"), outcome, other, strict=True):
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.sqrt(_mean((one - two) ** 2) / _mean(two**2))
        changes[f"{part}_{name}"] = float(np.median(ratio))
    return changes


def _mean(terms: Floats) -> Floats:
    return np.mean(terms, axis=-1, keepdims=True)

"""Overflow of dx in float32 when dz is divided by std before the two averages are subtracted, or after.

x_norm and std are exact here and rounded once; only the bracket is computed in float32, gamma is 1. Of the
rows whose exact dx float32 can hold, those that come out finite are counted. max|dz| is `share` of float32's
largest number; upstream is N(0,1), or `aligned` with 1 and x_norm, so that dx is small beside dz/std.
"""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from layernorm_backward import inputs, oracle
from layernorm_backward.dtypes import largest
from layernorm_backward.experiments._arguments import Count, Eps, Positive, Seed, Several
from layernorm_backward.records.tabulate import table

SPREAD = 1e-3


def after(dz: NDArray, x_norm: NDArray, std: NDArray) -> NDArray:
    """(dz - sum(dz)/D - x_norm*sum(dz*x_norm)/D) / std."""
    return _projected(dz, x_norm) / std


def before(dz: NDArray, x_norm: NDArray, std: NDArray) -> NDArray:
    """t - sum(t)/D - x_norm*sum(t*x_norm)/D with t = dz/std."""
    return _projected(dz / std, x_norm)


DIVISIONS: dict[str, Callable[[NDArray, NDArray, NDArray], NDArray]] = {"before": before, "after": after}


def run(
    *,
    upstreams: Several[Literal["normal", "aligned"]],
    stds: Several[Positive],
    shares: Several[Positive],
    hidden: Count,
    rows: Count,
    eps: Eps,
    seed: Seed,
) -> pd.DataFrame:
    """One row per place of the division, upstream, std of the rows and share."""
    cells = [(upstream, std, share) for upstream in upstreams for std in stds for share in shares]
    return table((row for cell in cells for row in _cell(*cell, hidden, rows, eps, seed)), "division_order")


def _cell(
    upstream: str, std: float, share: float, hidden: int, rows: int, eps: float, seed: int
) -> list[dict[str, Any]]:
    rng = inputs.generator(seed, hidden)
    x = inputs.values(inputs.rows(rng, rows, hidden, np.float32, std=std))
    dz = rng.standard_normal(x.shape) if upstream == "normal" else inputs.aligned(rng, x, SPREAD)
    dz = (dz * (share * largest(np.float32) / np.abs(dz).max(axis=-1, keepdims=True))).astype(np.float32)
    exact = oracle.backward(x, np.ones(hidden), inputs.values(dz), eps).dx.hi
    fits = np.abs(exact).max(axis=-1) <= largest(np.float32)
    x_hat, rstd = oracle.normalize(x, eps)
    operands = x_hat.hi.astype(np.float32), (1 / rstd.hi[:, None]).astype(np.float32)
    common = {"upstream": upstream, "std": std, "share": share, "hidden": hidden, "rows": rows}
    counted = common | {"representable_rows": int(fits.sum())}
    return [
        counted | {"division": name, "finite_rows": int((_finite(divide, dz, *operands) & fits).sum())}
        for name, divide in DIVISIONS.items()
    ]


def _projected(t: NDArray, x_norm: NDArray) -> NDArray:
    hidden = t.shape[-1]
    along = (t * x_norm).sum(axis=-1, keepdims=True)
    return t - t.sum(axis=-1, keepdims=True) / hidden - x_norm * along / hidden


def _finite(divide: Callable[..., NDArray], *operands: NDArray) -> NDArray[np.bool_]:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.isfinite(divide(*operands)).all(axis=-1)

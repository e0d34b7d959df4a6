"""Checks results on the device in float64 by plain array operations, one block of rows at a time.

The reference has a relative error of about 1e-15 times the condition number of the rows.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from layernorm_backward.dtypes import largest, unit_roundoff
from layernorm_backward.gpu.rows import Arrays

BLOCK = 1 << 24  # elements of a block


class Errors(NamedTuple):
    """Errors of y and dx, the largest of all rows, and of dgamma and dbeta, in u of their dtypes.

    Each is the 2-norm of the error over that of the terms that the result is summed from: |gamma*x_hat| +
    |beta|; rstd*g; sum |dy*x_hat|; sum |dy|. NaN where an element was not written, or is not finite although
    its dtype can represent the exact value.
    """

    y: float
    dx: float
    dgamma: float
    dbeta: float


class Results(NamedTuple):
    """y, dx (rows, hidden) and dgamma, dbeta (hidden,) on the device; None for what was not computed."""

    y: Any
    dx: Any
    dgamma: Any
    dbeta: Any


def errors(xp: Any, given: Arrays, found: Results, eps: float) -> Errors:
    """The errors of results on given arrays."""
    gamma, beta = (wide(vector) for vector in (given.gamma, given.beta))
    dgamma, dbeta, dgamma_terms, dbeta_terms = (xp.zeros(gamma.shape) for _ in range(4))
    worst = {"y": 0.0, "dx": 0.0}
    for part in _blocks(*given.x.shape):
        dy = wide(given.dy[part])
        x_hat, rstd = _normalized(xp, wide(given.x[part]), eps)
        for total, terms in ((dgamma, dy * x_hat), (dbeta, dy)):
            total += terms.sum(axis=0)
        dgamma_terms += abs(dy * x_hat).sum(axis=0)
        dbeta_terms += abs(dy).sum(axis=0)
        if found.y is not None:
            scaled = gamma * x_hat
            off = _off(xp, wide(found.y[part]) - (scaled + beta), abs(scaled) + abs(beta))
            worst["y"] = _worse(worst["y"], off)
        if found.dx is not None:
            dy *= gamma
            right = dy - dy.mean(axis=-1, keepdims=True)
            right -= x_hat * (dy * x_hat).mean(axis=-1, keepdims=True)
            worst["dx"] = _worse(worst["dx"], _off(xp, wide(found.dx[part]) - right * rstd, dy * rstd))
    u = unit_roundoff(given.x.dtype)
    sums = (
        np.nan if vector is None else _off(xp, _error(xp, vector, right), terms) / unit_roundoff(vector.dtype)
        for vector, right, terms in (
            (found.dgamma, dgamma, dgamma_terms),
            (found.dbeta, dbeta, dbeta_terms),
        )
    )
    return Errors(worst["y"] / u, worst["dx"] / u, *sums)


def nan_in(xp: Any, found: Results) -> list[str]:
    """The names of the results that hold NaN, as they do where they were not written."""
    return [name for name, one in found._asdict().items() if one is not None and _holds_nan(xp, one)]


def _holds_nan(xp: Any, array: Any) -> bool:
    """One block at a time: a large array in float64 may not fit into memory."""
    flat = array.reshape(-1)
    parts = (flat[start : start + BLOCK] for start in range(0, flat.size, BLOCK))
    return any(bool(xp.isnan(wide(part)).any()) for part in parts)


def _normalized(xp: Any, x: Any, eps: float) -> tuple[Any, Any]:
    """x_hat and rstd; the mean is subtracted twice."""
    x -= x.mean(axis=-1, keepdims=True)
    x -= x.mean(axis=-1, keepdims=True)
    rstd = 1 / xp.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
    x *= rstd
    return x, rstd


def wide(array: Any) -> Any:
    """The same numbers in float64."""
    if array.dtype.name == "bfloat16":
        bits = array.view(np.uint16).astype(np.uint32)
        bits <<= 16
        return bits.view(np.float32).astype(np.float64)
    return array.astype(np.float64)


def _blocks(rows: int, hidden: int) -> Iterator[slice]:
    step = max(1, BLOCK // hidden)
    return (slice(start, start + step) for start in range(0, rows, step))


def _error(xp: Any, found: Any, right: Any) -> Any:
    """found - right; 0 where the exact value overflows the dtype of `found`, which is infinite there."""
    there = wide(found)
    infinite = (abs(right) > largest(found.dtype)) & (there == xp.copysign(np.inf, right))
    return xp.where(infinite, 0.0, there - right)


def _off(xp: Any, error: Any, terms: Any) -> float:
    """The largest ratio of the 2-norms of a row's error and terms; 0/0 is 0."""
    error, size = (xp.sqrt((rows * rows).sum(axis=-1)) for rows in (error, terms))
    ratio = error / xp.where((size == 0) & (error == 0), 1.0, size)
    return float(ratio.max()) if bool(xp.isfinite(ratio).all()) else np.nan


def _worse(one: float, other: float) -> float:
    return np.nan if np.isnan(one) or np.isnan(other) else max(one, other)

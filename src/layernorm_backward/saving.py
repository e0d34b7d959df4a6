"""The backward pass from different saved statistics per row, and the mean of the x_hat that it uses.

What is saved, by name; rstd is in the dtype of the sums unless stated otherwise:

    mean_DTYPE        the mean, rounded once to DTYPE
    mean_rstd_DTYPE   mean and rstd, both rounded to DTYPE
    mean_and_shift    m and mean(x - m), both in the dtype of the sums
    first_element     no mean: x_1 is used instead
    x_hat             x_hat, rounded to the dtype of x, instead of x

The backward passes, by name:

    as_saved          z = x - mean; x_hat = z*rstd                                               equation (4)
    recentred         z = x - mean; z -= mean(z); x_hat = z*rstd                                equation (13)
    recentred_rstd    `recentred` with rstd/sqrt(1 - (delta*rstd)^2), delta = mean(z): the variance about a
                      mean that is off by delta is too large by delta^2

Arithmetic is that of `passes`: each operation rounded to the dtype of the sums, sums as binary trees.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward import passes
from layernorm_backward.double_double import Floats, exactly
from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of, round_to, sum_dtype
from layernorm_backward.problem import Problem
from layernorm_backward.sums import tree_sum

SAVED = (
    *(f"mean_{name}" for name in DTYPE_NAMES),
    *(f"mean_rstd_{name}" for name in DTYPE_NAMES),
    "mean_and_shift",
    "first_element",
    "x_hat",
)
BackwardName = Literal["as_saved", "recentred", "recentred_rstd"]


class Kept(NamedTuple):
    """What is saved for the backward pass: x_hat (N, D) or offsets (N,) to subtract (none: x_1); rstd."""

    x_hat: NDArray | None
    offsets: tuple[NDArray, ...]
    rstd: NDArray

    @property
    def extra_bytes(self) -> int:
        """Bytes saved in addition to x and gamma."""
        x_hat = () if self.x_hat is None else (self.x_hat,)
        return sum(array.nbytes for array in (*x_hat, *self.offsets, self.rstd))


class Gradients(NamedTuple):
    """dx (N, D), dgamma (D,) in the storage dtype; eta (N,): |mean(x_hat)|, 0 if exact."""

    dx: NDArray
    dgamma: NDArray
    eta: Floats


def keep(saved: str, forward: str, problem: Problem, eps: float) -> Kept:
    """What `saved` names, from the forward pass by an algorithm of `passes`; ValueError if unknown."""
    if saved not in SAVED:
        raise ValueError(f"unknown saved statistics {saved!r}; allowed: {', '.join(SAVED)}")
    found = passes.statistics(forward, problem.x, eps, sum_dtype(problem.x.dtype))
    if saved == "x_hat":
        return Kept(passes.stored(found.x_hat, problem.x.dtype), (), found.rstd)
    if saved == "first_element":
        return Kept(None, (), found.rstd)
    if saved == "mean_and_shift":
        return Kept(None, (found.mean, found.shift), found.rstd)
    dtype = dtype_of(saved.rpartition("_")[2])
    mean = round_to(found.mean.astype(np.float64) + found.shift.astype(np.float64), dtype)
    both = saved.startswith("mean_rstd")
    return Kept(None, (mean,), round_to(found.rstd.astype(np.float64), dtype) if both else found.rstd)


def backward(how: BackwardName, kept: Kept, problem: Problem) -> Gradients:
    """dx and dgamma from what was saved; x is not used where x_hat was saved."""
    wide = sum_dtype(problem.x.dtype)
    x, gamma, _, dy = (array.astype(wide, copy=False) for array in problem)
    rstd = kept.rstd.astype(wide, copy=False)
    with np.errstate(invalid="ignore", over="ignore"):
        z = (
            _less(x, kept.offsets or (x[:, 0],))
            if kept.x_hat is None
            else kept.x_hat.astype(wide, copy=False)
        )
        if how != "as_saved":
            delta = tree_sum(z) / wide.type(z.shape[-1])
            z = z - delta[:, None]
        if how == "recentred_rstd":
            rstd = rstd / np.sqrt(1 - (delta * rstd) * (delta * rstd))
        x_hat = z * rstd[:, None] if kept.x_hat is None else z
        dx, dgamma = passes.gradients(x_hat, rstd, gamma, dy)
        eta = exactly(x_hat.astype(np.float64)).mean().hi
    return Gradients(*(passes.stored(part, problem.x.dtype) for part in (dx, dgamma)), np.abs(eta))


def _less(x: NDArray, offsets: tuple[NDArray, ...]) -> NDArray:
    """x less each offset in turn; float64 offsets in float64, then rounded to the dtype of the sums."""
    z = x
    for offset in offsets:
        z = (z - offset.astype(np.promote_types(x.dtype, offset.dtype))[:, None]).astype(x.dtype, copy=False)
    return z

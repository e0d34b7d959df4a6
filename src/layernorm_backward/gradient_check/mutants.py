"""Known faults of a backward pass: `MUTANTS`, and `kernel(name)`, a kernel with one ("none": a correct one).

The forward pass is always correct. Each fault was seen in practice or differs from the equations by one slip:
in a term, a factor, a sum, an eps, a row or a precision. `LOCAL` are faults at the edges of a kernel, which
affect few elements of a large tensor.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.dtypes import dtype_of
from layernorm_backward.gradient_check.faulty_kernel import (
    Backward,
    Gradients,
    Saved,
    gradients,
    mean,
    over_rows,
)
from layernorm_backward.gradient_check.faulty_kernel import kernel as faulty_kernel
from layernorm_backward.kernels import Kernel

CORRECT = "none"


class Mutant(NamedTuple):
    """`quantity` is the first of dx, dgamma, dbeta that is faulty in `backward(dy, saved)`."""

    name: str
    quantity: str
    backward: Backward


def kernel(name: str) -> Kernel:
    """The kernel with the fault of this name, for all four storage dtypes; ValueError for an unknown name."""
    if name == CORRECT:
        return faulty_kernel(name, gradients)
    known = MUTANTS | LOCAL
    if name not in known:
        raise ValueError(f"unknown mutant {name!r}; allowed: {CORRECT}, {', '.join(known)}")
    return faulty_kernel(name, known[name].backward)


def _but_for(dy: NDArray, s: Saved, **changed: NDArray) -> Gradients:
    """The correct gradients, except for those given."""
    dx, dgamma, dbeta = gradients(dy, s)
    return tuple(({"dx": dx, "dgamma": dgamma, "dbeta": dbeta} | changed).values())


def _with_rstd(dy: NDArray, s: Saved, rstd: NDArray) -> Gradients:
    return gradients(dy, s, rstd=rstd, x_hat=s.z * rstd)


def _narrow(part: NDArray, dtype: str) -> NDArray:
    return part.astype(dtype_of(dtype)).astype(part.dtype)


def _narrow_mean(dy: NDArray, s: Saved, dtype: str) -> Gradients:
    return gradients(dy, s, x_hat=(s.x - _narrow(s.mean, dtype)) * s.rstd)


def _narrow_both(dy: NDArray, s: Saved, dtype: str) -> Gradients:
    rstd = 1 / np.sqrt(_narrow(s.var, dtype) + s.eps)
    return gradients(dy, s, rstd=rstd, x_hat=(s.x - _narrow(s.mean, dtype)) * rstd)


def _other_row(column: NDArray) -> NDArray:
    return np.roll(column.reshape(-1), 1).reshape(column.shape)


def _one_axis(terms: NDArray) -> NDArray:
    """The sum over the first axis, at index 0 of the second; a matrix is one batch of rows."""
    batch = terms.shape[0] if terms.ndim > 2 else 1
    return terms.reshape(batch, -1, terms.shape[-1]).sum(axis=0)[0]


def _last_row_left_out(terms: NDArray) -> NDArray:
    return terms.reshape(-1, terms.shape[-1])[:-1].sum(axis=0)


def _left_out(part: NDArray, *where: int | slice) -> NDArray:
    """A gradient with zeros at `where` of its (rows, D)."""
    kept = part.reshape(-1, part.shape[-1]).copy()
    kept[where] = 0
    return kept.reshape(part.shape)


def _unscaled(dy: NDArray, s: Saved, c1: NDArray, c2: NDArray) -> Gradients:
    return _but_for(dy, s, dx=s.rstd * (s.gamma * dy - c1 - s.x_hat * c2))


def _size(s: Saved) -> int:
    return s.x.shape[-1]


def _unbiased(s: Saved) -> float:
    return _size(s) / max(_size(s) - 1, 1)


_FAULTS: dict[str, Backward] = {
    "no mean(g) term": lambda dy, s: gradients(dy, s, c1=0.0),
    "mean(g) subtracted twice": lambda dy, s: gradients(dy, s, c1=2.0),
    "mean(g) without gamma": lambda dy, s: _unscaled(dy, s, mean(dy), mean(s.gamma * dy * s.x_hat)),
    "no x_hat term": lambda dy, s: gradients(dy, s, c2=0.0),
    "sign of the x_hat term": lambda dy, s: gradients(dy, s, c2=-1.0),
    "x_hat term without gamma": lambda dy, s: _unscaled(dy, s, mean(s.gamma * dy), mean(dy * s.x_hat)),
    "x_hat term from x": lambda dy, s: _unscaled(dy, s, mean(s.gamma * dy), mean(s.gamma * dy * s.x)),
    "sums in place of means": lambda dy, s: gradients(dy, s, c1=_size(s), c2=_size(s)),
    "means over D - 1": lambda dy, s: gradients(dy, s, c1=_unbiased(s), c2=_unbiased(s)),
    "gamma left out": lambda dy, s: gradients(dy, s, g=dy),
    "gamma applied twice": lambda dy, s: gradients(dy, s, g=s.gamma * s.gamma * dy),
    "gamma outside of the bracket": lambda dy, s: gradients(dy, s, g=dy, outer=s.gamma),
    "variance over D - 1": lambda dy, s: _with_rstd(dy, s, 1 / np.sqrt(s.var * _unbiased(s) + s.eps)),
    "eps outside of the root": lambda dy, s: _with_rstd(dy, s, 1 / (np.sqrt(s.var) + s.eps)),
    "eps left out": lambda dy, s: _with_rstd(dy, s, 1 / np.sqrt(s.var)),
    "eps added twice": lambda dy, s: _with_rstd(dy, s, 1 / np.sqrt(s.var + 2 * s.eps)),
    "a tenth of eps": lambda dy, s: _with_rstd(dy, s, 1 / np.sqrt(s.var + 0.1 * s.eps)),
    "eps as a floor": lambda dy, s: _with_rstd(dy, s, 1 / np.sqrt(np.maximum(s.var, s.eps))),
    "rstd of the wrong row": lambda dy, s: gradients(dy, s, rstd=_other_row(s.rstd)),
    "rstd left out": lambda dy, s: _but_for(dy, s, dx=gradients(dy, s)[0] / s.rstd),
    "rstd squared": lambda dy, s: gradients(dy, s, outer=s.rstd),
    "statistics in float16": lambda dy, s: _narrow_both(dy, s, "float16"),
    "statistics in bfloat16": lambda dy, s: _narrow_both(dy, s, "bfloat16"),
    "mean in float16": lambda dy, s: _narrow_mean(dy, s, "float16"),
    "mean in bfloat16": lambda dy, s: _narrow_mean(dy, s, "bfloat16"),
    "dgamma without x_hat": lambda dy, s: _but_for(dy, s, dgamma=over_rows(dy)),
    "dgamma without rstd": lambda dy, s: _but_for(dy, s, dgamma=over_rows(dy * s.z)),
    "dgamma from g": lambda dy, s: _but_for(dy, s, dgamma=over_rows(s.gamma * dy * s.x_hat)),
    "dgamma over one axis": lambda dy, s: _but_for(dy, s, dgamma=_one_axis(dy * s.x_hat)),
    "dgamma without the last row": lambda dy, s: _but_for(dy, s, dgamma=_last_row_left_out(dy * s.x_hat)),
    "dbeta as a mean": lambda dy, s: _but_for(dy, s, dbeta=dy.reshape(-1, _size(s)).mean(axis=0)),
    "dbeta from g": lambda dy, s: _but_for(dy, s, dbeta=over_rows(s.gamma * dy)),
    "dbeta over one axis": lambda dy, s: _but_for(dy, s, dbeta=_one_axis(dy)),
}

_ALL = slice(None)
_LOCAL: dict[str, Backward] = {
    "dx of the last row left out": lambda dy, s: _but_for(dy, s, dx=_left_out(gradients(dy, s)[0], -1)),
    "dx of the last column left out": lambda dy, s: _but_for(
        dy, s, dx=_left_out(gradients(dy, s)[0], _ALL, -1)
    ),
    "one element of dx left out": lambda dy, s: _but_for(dy, s, dx=_left_out(gradients(dy, s)[0], -1, -1)),
    "dgamma of the last column left out": lambda dy, s: _but_for(
        dy, s, dgamma=_left_out(over_rows(dy * s.x_hat), 0, -1)
    ),
}


def _quantity(name: str) -> str:
    return next((word for word in ("dgamma", "dbeta") if name.startswith(word)), "dx")


def _mutants(faults: dict[str, Backward]) -> dict[str, Mutant]:
    return {name: Mutant(name, _quantity(name), backward) for name, backward in faults.items()}


MUTANTS = _mutants(_FAULTS)
LOCAL = _mutants(_LOCAL)

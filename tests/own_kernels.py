"""Kernels as a reader may register them: `compact` with one fault each."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.kernels import KERNELS, Kernel

COMPACT = KERNELS["compact"]
Gradients = tuple[NDArray, NDArray, NDArray]


def forward(x: NDArray, gamma: NDArray, beta: NDArray, eps: float, out: NDArray | None = None) -> Any:
    return COMPACT.forward(x, gamma, beta, eps, out=out)


def own(name: str, **functions: Any) -> Kernel:
    """A kernel of this name, no function of which is ours."""
    return replace(COMPACT, name=name, **({"forward": forward} | functions))


def with_dgamma(name: str, dtype: str) -> Kernel:
    """One whose dgamma has this dtype, whatever gamma's."""

    def backward(dy: NDArray, saved: Any, out: Any = None) -> Gradients:
        dx, dgamma, dbeta = COMPACT.backward(dy, saved, out=out)
        return dx, dgamma.astype(dtype), dbeta

    return own(name, backward=backward)


def _strict(dy: NDArray, saved: Any, out: Any = None) -> Gradients:
    np.seterr(all="raise")
    return COMPACT.backward(dy, saved, out=out)


def _spoiling(dy: NDArray, saved: Any, out: Any = None) -> Gradients:
    results = COMPACT.backward(dy, saved, out=out)
    dy *= 0
    return results


def _dividing(dy: NDArray, saved: Any, out: Any = None) -> Gradients:
    1 / dy[..., 0].size
    return COMPACT.backward(dy, saved, out=out)


def _narrow(dy: NDArray, saved: Any, out: Any = None) -> Gradients:
    if dy.shape[-1] > 60:
        raise ValueError("D > 60 is not written yet")
    return COMPACT.backward(dy, saved, out=out)


def tiring(role: str, calls: int) -> Kernel:
    """One whose function of this role, forward or backward, raises after so many calls."""
    left = [calls]

    def tire(*arguments: Any, out: Any = None) -> Any:
        if not left[0]:
            raise RuntimeError("no more of this")
        left[0] -= 1
        return getattr(COMPACT, role)(*arguments, out=out)

    return own("tiring", **{role: tire})


def _forward_without_out(x: NDArray, gamma: NDArray, beta: NDArray, eps: float) -> Any:
    return COMPACT.forward(x, gamma, beta, eps)


def _backward_without_out(dy: NDArray, saved: Any) -> Gradients:
    return COMPACT.backward(dy, saved)


HALF_DGAMMA = with_dgamma("half_dgamma", "float16")
WIDE_DGAMMA = with_dgamma("wide_dgamma", "float64")
SPOILING = own("spoiling", backward=_spoiling)
DIVIDING = own("dividing", backward=_dividing)
NARROW = own("sixty", backward=_narrow)
WITHOUT_OUT = own("without_out", forward=_forward_without_out, backward=_backward_without_out)
STRICT = own("strict", backward=_strict)

"""Kernels that save as a reader's kernel may: a tuple, flat or nested, a list, dict, object, or one array."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.kernels import KERNELS, Kernel
from layernorm_backward.kernels.published import CompactSaved


def saving(kernel: Kernel, kept: Callable[[Any], Any], found: Callable[[Any], Any]) -> Kernel:
    """The kernel, but `kept` converts what is saved to another form, and `found` converts it back."""

    def forward(*arguments: Any, **options: Any) -> tuple[NDArray, Any]:
        y, saved = kernel.forward(*arguments, **options)
        return y, kept(saved)

    def backward(dy: NDArray, saved: Any, **options: Any) -> tuple[NDArray, NDArray, NDArray]:
        return kernel.backward(dy, found(saved), **options)

    return replace(kernel, forward=forward, backward=backward)


def _one_array(saved: CompactSaved) -> NDArray:
    """(N + 1, D + 1): rstd behind the rows of x_hat, gamma below them."""
    return np.vstack([np.hstack([saved.x_hat, saved.rstd]), np.append(saved.gamma, saved.gamma[:1])])


def _of_one_array(array: NDArray) -> CompactSaved:
    parts = (array[:-1, :-1], array[:-1, -1:], array[-1, :-1])
    return CompactSaved(*map(np.ascontiguousarray, parts), D=array.shape[1] - 1)


COMPACT = KERNELS["compact"]
KEPT = {
    "tuple": saving(COMPACT, tuple, CompactSaved._make),
    "list": saving(COMPACT, list, CompactSaved._make),
    "dict": saving(COMPACT, CompactSaved._asdict, lambda saved: CompactSaved(**saved)),
    "nested": saving(
        COMPACT, lambda saved: (saved[:2], *saved[2:]), lambda saved: CompactSaved(*saved[0], *saved[1:])
    ),
    "object": saving(
        COMPACT, lambda saved: SimpleNamespace(all=tuple(saved)), lambda saved: CompactSaved(*saved.all)
    ),
    "one array": saving(COMPACT, _one_array, _of_one_array),
}

"""Liger Kernel's layer norm: the Triton kernels of liger_kernel.ops.layer_norm, past its autograd function.

A program keeps dgamma and dbeta of its share of the rows in float32, one program a multiprocessor; PyTorch
adds these up. mean and rstd are kept in float32 in version 0.8.5, in 0.8.2 still in x's dtype.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from layernorm_backward.peers_on_gpu.bridge import on_host, tensor
from layernorm_backward.peers_on_gpu.contender import Contender, Directions, refuse_float64
from layernorm_backward.peers_on_gpu.passes import contender

LONGEST = 1 << 16  # elements of a row
OPTIONAL = ("peft", "transformers")  # it imports them where they are installed, which takes 10 s and more
_NOTE = (
    "liger_kernel.ops.layer_norm: layer_norm_forward and layer_norm_backward, Triton backend, as they come"
)


def prepare(x: Any, gamma: Any, beta: Any, dy: Any, eps: float, directions: Directions) -> Contender:
    """ValueError for float64, and for rows that are too long for one block."""
    refuse_float64(x.dtype, "Liger Kernel")
    if x.shape[1] > LONGEST:
        raise ValueError(f"Liger Kernel takes rows of at most {LONGEST} elements, not {x.shape[1]}")
    with without(OPTIONAL):
        from liger_kernel.ops.layer_norm import layer_norm_backward, layer_norm_forward

    cuda, given = not on_host(x), (x, gamma, beta, dy)
    x, gamma, beta, dy = map(tensor, given)
    _, _, mean, rstd, *_ = layer_norm_forward(x, gamma, beta, eps)

    def forward() -> tuple[Any, ...]:
        return layer_norm_forward(x, gamma, beta, eps)[:1]

    def backward() -> tuple[Any, ...]:
        return layer_norm_backward(dy, x, gamma, beta, mean, rstd)

    return contender(forward, backward, _NOTE, given[1], directions, cuda=cuda)


@contextmanager
def without(packages: tuple[str, ...]) -> Iterator[None]:
    """Packages that are not loaded yet cannot be imported meanwhile, as if they were not installed."""
    blocked = [name for name in packages if name not in sys.modules]
    sys.modules.update(dict.fromkeys(blocked))
    try:
        yield
    finally:
        for name in blocked:
            sys.modules.pop(name, None)

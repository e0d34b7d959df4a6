"""Liger Kernel's layer norm: the Triton kernels of liger_kernel.ops.layer_norm, without autograd.

There is one program per multiprocessor. Each sums dgamma and dbeta over its share of the rows in float32, and
PyTorch adds these sums up. mean and rstd are saved in float32 in version 0.8.5, but in x's dtype in 0.8.2.
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
    "liger_kernel.ops.layer_norm: layer_norm_forward and layer_norm_backward, Triton backend, its defaults"
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
    """Within this context, those of the packages that are not loaded yet seem not to be installed."""
    blocked = [name for name in packages if name not in sys.modules]
    sys.modules.update(dict.fromkeys(blocked))
    try:
        yield
    finally:
        for name in blocked:
            sys.modules.pop(name, None)

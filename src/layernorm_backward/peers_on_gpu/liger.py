"""Liger Kernel's layer norm: the Triton kernels of liger_kernel.ops.layer_norm, past its autograd function.

A program keeps dgamma and dbeta of its share of the rows in float32, one program a multiprocessor; PyTorch
adds these up. mean and rstd are kept in float32 in version 0.8.5, in 0.8.2 still in x's dtype.
"""

from typing import Any

from layernorm_backward.peers_on_gpu.bridge import on_host, tensor
from layernorm_backward.peers_on_gpu.contender import Contender, refuse_float64
from layernorm_backward.peers_on_gpu.passes import contender

LONGEST = 1 << 16  # elements of a row
_NOTE = "liger_kernel.ops.layer_norm: layer_norm_forward and layer_norm_backward (Triton), as they come"


def prepare(x: Any, gamma: Any, beta: Any, dy: Any, eps: float) -> Contender:
    """ValueError for float64, and for rows that are too long for one block."""
    refuse_float64(x.dtype, "Liger Kernel")
    if x.shape[1] > LONGEST:
        raise ValueError(f"Liger Kernel takes rows of at most {LONGEST} elements, not {x.shape[1]}")
    from liger_kernel.ops.layer_norm import layer_norm_backward, layer_norm_forward

    cuda, given = not on_host(x), (x, gamma, beta, dy)
    x, gamma, beta, dy = map(tensor, given)
    _, _, mean, rstd, *_ = layer_norm_forward(x, gamma, beta, eps)

    def forward() -> tuple[Any, ...]:
        return layer_norm_forward(x, gamma, beta, eps)[:1]

    def backward() -> tuple[Any, ...]:
        return layer_norm_backward(dy, x, gamma, beta, mean, rstd)

    return contender(forward, backward, _NOTE, given[1], cuda=cuda)

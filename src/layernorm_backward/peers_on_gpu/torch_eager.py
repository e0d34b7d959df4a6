"""PyTorch's own operators, called as its autograd calls them: aten::native_layer_norm and its backward pass.

Their `.out` overloads are no faster: PyTorch generates them from the operators and a copy of each result (it
has no kernel of its own for them). Results are new tensors, from the allocator's cache.

On a GPU the operators take gamma in x's dtype only ("expected scalar type BFloat16 but found Float"
otherwise), and save mean and rstd in float32; on a CPU gamma may be float32 beside 16-bit x.
"""

from typing import Any

from layernorm_backward.peers_on_gpu.bridge import on_host, tensor
from layernorm_backward.peers_on_gpu.contender import Contender, Directions
from layernorm_backward.peers_on_gpu.passes import contender

_ALL = [True, True, True]
_MIXED = "scalar type"  # in PyTorch's error for an unsupported combination of dtypes, on a GPU and on a CPU
_NOTE = "aten::native_layer_norm and native_layer_norm_backward, results in new tensors"


def prepare(x: Any, gamma: Any, beta: Any, dy: Any, eps: float, directions: Directions) -> Contender:
    """ValueError where the operators do not support gamma of another dtype than x."""
    import torch

    cuda, given = not on_host(x), (x, gamma, beta, dy)
    x, gamma, beta, dy = map(tensor, given)
    sides = list(x.shape[1:])
    try:
        _, mean, rstd = torch.ops.aten.native_layer_norm.default(x, sides, gamma, beta, eps)
    except RuntimeError as error:
        if gamma.dtype == x.dtype or _MIXED not in str(error):
            raise
        raise ValueError(f"PyTorch takes no {gamma.dtype} gamma beside {x.dtype} x: {error}") from error

    def forward() -> tuple[Any, ...]:
        return torch.ops.aten.native_layer_norm.default(x, sides, gamma, beta, eps)[:1]

    def backward() -> tuple[Any, ...]:
        backward_of = torch.ops.aten.native_layer_norm_backward.default
        return backward_of(dy, x, sides, mean, rstd, gamma, beta, _ALL)

    return contender(forward, backward, _NOTE, given[1], directions, cuda=cuda)

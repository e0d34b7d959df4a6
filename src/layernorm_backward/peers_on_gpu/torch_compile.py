"""What torch.compile makes of F.layer_norm: the forward pass and the backward pass that AOTAutograd derives.

Compiled for the given shape alone, in the mode that tries the most launch parameters on the device. A
backward pass of its own is reached through autograd only; captured as a CUDA graph it is kernels alone.

Where gamma is wider than x, x is widened first, as F.layer_norm of a GPU needs it; the compiler fuses that.
"""

from typing import Any

from layernorm_backward.peers_on_gpu.bridge import on_host, tensor
from layernorm_backward.peers_on_gpu.contender import Contender
from layernorm_backward.peers_on_gpu.passes import contender

MODE = "max-autotune-no-cudagraphs"
_NOTE = f"torch.compile(F.layer_norm, mode={MODE!r}, dynamic=False); backward by torch.autograd.grad"


class _Recorded:
    """A forward pass that autograd has recorded: y, and the tensors that gradients are wanted of."""

    def __init__(self, function: Any, inputs: tuple[Any, ...]) -> None:
        self._function, self._inputs = function, inputs
        self()

    def __call__(self) -> Any:
        """Record it anew, on the current stream, where the backward pass will run; y, which holds it all."""
        self.leaves = tuple(one.detach().requires_grad_() for one in self._inputs)
        self.y = self._function(*self.leaves)
        return self.y


def prepare(x: Any, gamma: Any, beta: Any, dy: Any, eps: float) -> Contender:
    """Compiles both passes, which takes seconds."""
    import torch
    from torch._dynamo import config as dynamo
    from torch._functorch import config as functorch

    cuda, given = not on_host(x), (x, gamma, beta, dy)
    *inputs, dy = map(tensor, given)
    function = torch.compile(_layer_norm(eps), mode=MODE, dynamic=False, fullgraph=True)
    many = {"recompile_limit": 1 << 16, "accumulated_recompile_limit": 1 << 16}  # one a shape
    with dynamo.patch(**many), functorch.patch(donated_buffer=False):  # a pass may run again
        recorded = _Recorded(function, tuple(inputs))

        def forward() -> tuple[Any, ...]:
            return (function(*recorded.leaves),)

        def backward() -> tuple[Any, ...]:
            return torch.autograd.grad(recorded.y, recorded.leaves, dy, retain_graph=True)

        return contender(forward, backward, _NOTE, given[1], record=recorded, cuda=cuda)


def _layer_norm(eps: float) -> Any:
    import torch

    def layer_norm(x: Any, gamma: Any, beta: Any) -> Any:
        wide = torch.promote_types(x.dtype, gamma.dtype)
        widened = [one.to(wide) for one in (x, gamma, beta)]
        return torch.nn.functional.layer_norm(widened[0], x.shape[1:], *widened[1:], eps).to(x.dtype)

    return layer_norm

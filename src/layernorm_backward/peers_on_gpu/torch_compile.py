"""F.layer_norm compiled by torch.compile: the forward pass, and the backward pass that AOTAutograd derives.

Compiled for the given shape only. Launch parameters are tuned on the device one at a time, starting from
PyTorch's own choice (coordinate descent); its modes "max-autotune..." start from the best of several choices,
and take minutes. Where tuning fails, PyTorch's own choice is used.

The compiled backward pass can be called only through autograd; its CUDA graph holds only the kernels. Where
gamma is wider than x, x is widened first, as F.layer_norm requires on a GPU; the compiler fuses this
conversion.
"""

from typing import Any

from layernorm_backward.one_line import one_line
from layernorm_backward.peers_on_gpu.bridge import on_host, tensor
from layernorm_backward.peers_on_gpu.contender import Contender, Directions
from layernorm_backward.peers_on_gpu.passes import contender

TUNED = {"coordinate_descent_tuning": True}
_NOTE = (
    "torch.compile(F.layer_norm, {how}, dynamic=False), forward with what it saves for its backward pass, "
    "backward by torch.autograd.grad"
)


class _Recorded:
    """A forward pass that autograd has recorded: y, and the leaf tensors whose gradients are computed."""

    def __init__(self, function: Any, inputs: tuple[Any, ...]) -> None:
        self._function, self._inputs = function, inputs
        self()

    def __call__(self) -> Any:
        """Record on the current stream, where the backward pass will run; returns y, which holds it all."""
        self.leaves = tuple(one.detach().requires_grad_() for one in self._inputs)
        self.y = self._function(*self.leaves)
        return self.y


def prepare(x: Any, gamma: Any, beta: Any, dy: Any, eps: float, directions: Directions) -> Contender:
    """Compiles the passes of `directions`, which takes seconds; without tuning where that fails."""
    given = (x, gamma, beta, dy)
    try:
        return _compiled(given, eps, directions, TUNED, f"options={TUNED}")
    except Exception as error:  # whatever the compiler or one of the kernels that it tries raises
        return _compiled(given, eps, directions, {}, f"not tuned ({one_line(error)})")


def _compiled(
    given: tuple[Any, ...], eps: float, directions: Directions, options: dict[str, Any], how: str
) -> Contender:
    import torch
    from torch._dynamo import config as dynamo
    from torch._functorch import config as functorch

    *inputs, dy = map(tensor, given)
    function = torch.compile(_layer_norm(eps), options=options, dynamic=False, fullgraph=True)
    many = {"recompile_limit": 1 << 16, "accumulated_recompile_limit": 1 << 16}  # one per shape
    with dynamo.patch(**many), functorch.patch(donated_buffer=False):  # a pass may run again
        recorded = _Recorded(function, tuple(inputs))

        def forward() -> tuple[Any, ...]:
            return (function(*recorded.leaves),)

        def backward() -> tuple[Any, ...]:
            return torch.autograd.grad(recorded.y, recorded.leaves, dy, retain_graph=True)

        note, cuda = _NOTE.format(how=how), not on_host(given[0])
        return contender(forward, backward, note, given[1], directions, record=recorded, cuda=cuda)


def _layer_norm(eps: float) -> Any:
    import torch

    def layer_norm(x: Any, gamma: Any, beta: Any) -> Any:
        wide = torch.promote_types(x.dtype, gamma.dtype)
        widened = [one.to(wide) for one in (x, gamma, beta)]
        return torch.nn.functional.layer_norm(widened[0], x.shape[1:], *widened[1:], eps).to(x.dtype)

    return layer_norm

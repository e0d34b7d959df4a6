"""PyTorch's passes for a worker: the operators behind torch.nn.LayerNorm and its autograd, on shared arrays.

Options:
  default  results are new tensors, as in PyTorch.
  tuned    the same, but freed memory is reused: see `settings` for the allocator.
  out      the operators' overloads with `out`, on tensors that were written before. PyTorch generates these
           overloads: they still allocate new tensors, and then copy.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from layernorm_backward.dtypes import dtype_of
from layernorm_backward.peers_at_work.protocol import Work
from layernorm_backward.peers_at_work.worker import Pass

_ALL = [True, True, True]
_SPARE = 1 << 20  # bytes


def prepare(work: Work, x: NDArray, dy: NDArray, option: str) -> Pass:
    """The pass that `work` asks for; mean and rstd of the backward pass come from PyTorch's forward pass."""
    torch.set_num_threads(work.threads)
    x, dy, gamma, beta = map(_tensor, (x, dy, work.gamma, work.beta))
    _, *statistics = torch.native_layer_norm(x, x.shape[-1:], gamma, beta, work.eps)
    make = _into if option == "out" else _new
    calls = make(x, dy, gamma, beta, statistics, work.eps)
    results = 2 if work.direction == "both" else 1
    behind = None if option == "default" else _free_block(results * (x.nbytes + _SPARE))
    return Pass(calls[work.direction], _arrays, f"torch {torch.__version__}", behind)


def _new(x: Any, dy: Any, gamma: Any, beta: Any, statistics: list[Any], eps: float) -> dict[str, Any]:
    sides = x.shape[-1:]

    def forward() -> tuple[Any, ...]:
        return torch.native_layer_norm(x, sides, gamma, beta, eps)[:1]

    def backward() -> tuple[Any, ...]:
        return torch.ops.aten.native_layer_norm_backward(dy, x, sides, *statistics, gamma, beta, _ALL)

    def both() -> tuple[Any, ...]:
        y, mean, rstd = torch.native_layer_norm(x, sides, gamma, beta, eps)
        return y, *torch.ops.aten.native_layer_norm_backward(dy, x, sides, mean, rstd, gamma, beta, _ALL)

    return {"forward": forward, "backward": backward, "both": both}


def _into(x: Any, dy: Any, gamma: Any, beta: Any, statistics: list[Any], eps: float) -> dict[str, Any]:
    sides, y, dx = x.shape[-1:], torch.ones_like(x), torch.ones_like(x)
    mean, rstd = map(torch.clone, statistics)
    results = {"out0": dx, "out1": torch.ones_like(gamma), "out2": torch.ones_like(gamma)}

    def forward() -> tuple[Any, ...]:
        outs = {"out0": y, "out1": mean, "out2": rstd}
        return torch.ops.aten.native_layer_norm.out(x, sides, gamma, beta, eps, **outs)[:1]

    def backward(mean: Any = statistics[0], rstd: Any = statistics[1]) -> tuple[Any, ...]:
        arguments = dy, x, sides, mean, rstd, gamma, beta, _ALL
        return torch.ops.aten.native_layer_norm_backward.out(*arguments, **results)

    def both() -> tuple[Any, ...]:
        return *forward(), *backward(mean, rstd)

    return {"forward": forward, "backward": backward, "both": both}


def _free_block(size: int) -> Any:
    """Leave a free, already written block on the heap, twice as large as the results; returns the one behind.

    That one keeps the free block from merging with the end of the heap. For aligned memory, glibc before 2.38
    requests more than it needs: a freed block is then just too small for the same request, and so is a larger
    one from which a small request has taken a piece. Calls would take new pages at the end of the heap, every
    second one at first.
    """
    block = torch.ones(2 * size, dtype=torch.uint8)
    behind = torch.ones(_SPARE, dtype=torch.uint8)
    del block
    return behind


def _tensor(array: NDArray) -> Any:
    if array.dtype == dtype_of("bfloat16"):
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _arrays(results: tuple[Any, ...]) -> tuple[NDArray, ...]:
    return tuple(_array(tensor) for tensor in results)


def _array(tensor: Any) -> NDArray:
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(dtype_of("bfloat16"))
    return tensor.numpy()

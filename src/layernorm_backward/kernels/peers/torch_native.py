"""PyTorch's own layer normalization on the CPU: the operators behind torch.nn.LayerNorm and its autograd.

Autograd is not used: `native_layer_norm_backward` is called as autograd would call it. Input arrays are
copied, so that no tensor shares the caller's memory. PyTorch saves mean and rstd in gamma's dtype, rounded to
16 bits there unless gamma is float32 (`MIXED`). It runs on one thread: PyTorch sums dgamma and dbeta in one
buffer per thread, so that their values depend on the number of threads.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.dtypes import dtype_of
from layernorm_backward.kernels import Kernel, checks


class Saved(NamedTuple):
    """x (..., D), gamma, beta (D,) as given; mean, rstd (..., 1) in the dtype that PyTorch keeps them in."""

    x: NDArray
    mean: NDArray
    rstd: NDArray
    gamma: NDArray
    beta: NDArray


def forward(
    x: NDArray, gamma: NDArray, beta: NDArray, eps: float, out: NDArray | None = None
) -> tuple[NDArray, Saved]:
    """y (..., D) in x's dtype."""
    import torch

    eps = checks.forward(x, gamma, beta, eps)
    y = checks.output("out", out, x.shape, x.dtype, (x, gamma, beta))
    with _one_thread():
        result, mean, rstd = torch.native_layer_norm(
            _tensor(x), x.shape[-1:], _tensor(gamma), _tensor(beta), eps
        )
    y[...] = _array(result)
    return y, Saved(x, _array(mean), _array(rstd), gamma, beta)


def backward(
    dy: NDArray, saved: Saved, out: checks.Outputs | None = None
) -> tuple[NDArray, NDArray, NDArray]:
    """dx (..., D) in x's dtype, dgamma and dbeta (D,) in gamma's."""
    import torch

    x, gamma = saved.x, saved.gamma
    checks.backward(dy, x.shape, x.dtype)
    results = checks.gradients(out, x.shape, x.dtype, gamma.dtype, (dy, *saved))
    x, mean, rstd, gamma, beta = (_tensor(array) for array in saved)
    with _one_thread():
        found = torch.ops.aten.native_layer_norm_backward(
            _tensor(dy), x, dy.shape[-1:], mean, rstd, gamma, beta, [True, True, True]
        )
    for result, values in zip(results, found, strict=True):
        result[...] = _array(values)
    return results


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _tensor(array: NDArray) -> Any:
    import torch

    copy = np.array(array, order="C")
    if copy.dtype == dtype_of("bfloat16"):
        return torch.from_numpy(copy.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(copy)


def _array(tensor: Any) -> NDArray:
    import torch

    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(dtype_of("bfloat16"))
    return tensor.numpy()


def forward_mixed(
    x: NDArray, gamma: NDArray, beta: NDArray, eps: float, out: NDArray | None = None
) -> tuple[NDArray, Saved]:
    """y (..., D) in x's dtype; gamma and beta are widened to float32 first."""
    return forward(x, gamma.astype(np.float32), beta.astype(np.float32), eps, out)


def backward_mixed(
    dy: NDArray, saved: Saved, out: checks.Outputs | None = None
) -> tuple[NDArray, NDArray, NDArray]:
    """dx (..., D) in x's dtype, dgamma and dbeta (D,) rounded to it."""
    dx, dgamma, dbeta = backward(dy, saved)
    found = dx, dgamma.astype(dx.dtype), dbeta.astype(dx.dtype)
    results = checks.gradients(out, dx.shape, dx.dtype, dx.dtype, (dy, *saved))
    for result, values in zip(results, found, strict=True):
        result[...] = values
    return results


_SOURCE = "PyTorch: aten::native_layer_norm and aten::native_layer_norm_backward, CPU"
_SAME = "gamma is as wide as x here, as in torch"

KERNEL = Kernel(
    name="torch",
    device="cpu",
    forward=forward,
    backward=backward,
    default_eps=1e-5,
    source=_SOURCE,
    requires=("torch",),
)
MIXED = Kernel(
    name="torch_mixed",
    device="cpu",
    forward=forward_mixed,
    backward=backward_mixed,
    default_eps=1e-5,
    source=f"{_SOURCE}, gamma and beta in float32 beside 16-bit x",
    unsupported={"float64": _SAME, "float32": _SAME},
    requires=("torch",),
)

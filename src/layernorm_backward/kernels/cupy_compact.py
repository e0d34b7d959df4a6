"""The published compact formula in plain CuPy, as a user would first write it.

CuPy launches a kernel for each operator and writes its result to memory. Formula, order of operations and
saved items are those of `compact`. On a machine with NumPy arrays the same code runs NumPy.
"""

from importlib import import_module
from typing import Any

from layernorm_backward.dtypes import sum_dtype
from layernorm_backward.kernels import Kernel, checks
from layernorm_backward.kernels.cuda import device
from layernorm_backward.kernels.cuda.machine import Machine
from layernorm_backward.kernels.published import COMPACT, CompactSaved


@checks.ieee
def forward(
    x: Any, gamma: Any, beta: Any, eps: float, out: Any = None, *, machine: Machine | None = None
) -> tuple[Any, CompactSaved]:
    """y (..., D) in x's dtype; x itself is not saved."""
    arrays = (machine or device.current()).arrays
    xp = _module(arrays)
    eps = checks.forward(x, gamma, beta, eps, arrays)
    y = checks.output("out", out, x.shape, x.dtype, (x, gamma, beta), arrays)
    wide = _wide(x)
    mean = wide.mean(axis=-1, keepdims=True)  # (..., 1)
    x_centered = wide - mean  # (..., D)
    var = (x_centered * x_centered).mean(axis=-1, keepdims=True)  # (..., 1)
    rstd = 1 / xp.sqrt(var + eps)  # (..., 1)
    x_hat = x_centered * rstd  # (..., D)
    xp.add(_wide(gamma) * x_hat, _wide(beta), out=y, casting="unsafe")
    return y, CompactSaved(x_hat.astype(x.dtype, copy=False), rstd, gamma, x.shape[-1])


@checks.ieee
def backward(
    dy: Any, saved: CompactSaved, out: checks.Outputs | None = None, *, machine: Machine | None = None
) -> tuple[Any, Any, Any]:
    """dx = rstd * (g - mean(g) - x_hat * mean(g * x_hat)), g = gamma * dy."""
    arrays = (machine or device.current()).arrays
    xp = _module(arrays)
    checks.saved_fields(saved, CompactSaved)
    x_hat, rstd, gamma, hidden = saved
    checks.backward(dy, x_hat.shape, x_hat.dtype, arrays)
    inputs = (dy, x_hat, rstd, gamma)
    dx, dgamma, dbeta = results = checks.gradients(out, x_hat.shape, x_hat.dtype, gamma.dtype, inputs, arrays)
    dy, x_hat = _wide(dy), _wide(x_hat)
    g = _wide(gamma) * dy  # (..., D)
    g_mean = g.mean(axis=-1, keepdims=True)  # (..., 1)
    gx_mean = (g * x_hat).mean(axis=-1, keepdims=True)  # (..., 1)
    xp.multiply(rstd, g - g_mean - x_hat * gx_mean, out=dx, casting="unsafe")
    dgamma[...] = (dy * x_hat).reshape(-1, hidden).sum(axis=0)
    dbeta[...] = dy.reshape(-1, hidden).sum(axis=0)
    return results


def _wide(array: Any) -> Any:
    return array.astype(sum_dtype(array.dtype), copy=False)


def _module(arrays: checks.Arrays) -> Any:
    """The module that arrays are from: cupy, or numpy."""
    return import_module(arrays.empty.__module__.partition(".")[0])


KERNEL = Kernel(
    name="cupy_compact",
    device="cuda",
    forward=forward,
    backward=backward,
    default_eps=COMPACT.default_eps,
    source=f"{COMPACT.source}, in CuPy",
    requires=("cupy",),
)

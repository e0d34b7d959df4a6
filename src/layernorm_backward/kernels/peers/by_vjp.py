"""Kernels from a layer norm in JAX: its forward pass and JAX's own vjp, each compiled once for each shape.

float64 is enabled for each call, not for the process. Input arrays are copied.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.kernels import Kernel, checks

LayerNorm = Callable[[Any, Any, Any, Any], Any]


class Saved(NamedTuple):
    """The vjp with its residuals, and shapes and dtypes for the checks of the backward pass."""

    vjp: Any
    shape: tuple[int, ...]
    dtype: np.dtype
    gamma_dtype: np.dtype


def kernel(name: str, layer_norm: LayerNorm, default_eps: float, source: str, *requires: str) -> Kernel:
    """The kernel of layer_norm(x, gamma, beta, eps), a function from JAX arrays to a JAX array."""
    return Kernel(
        name=name,
        device="cpu",
        forward=partial(_forward, layer_norm),
        backward=_backward,
        default_eps=default_eps,
        source=source,
        requires=requires,
    )


def _forward(
    layer_norm: LayerNorm, x: NDArray, gamma: NDArray, beta: NDArray, eps: float, out: NDArray | None = None
) -> tuple[NDArray, Saved]:
    eps = checks.forward(x, gamma, beta, eps)
    y = checks.output("out", out, x.shape, x.dtype, (x, gamma, beta))
    with _float64():
        result, vjp = _compiled_forward(layer_norm)(*map(_array, (x, gamma, beta)), eps)
        y[...] = result
    return y, Saved(vjp, x.shape, x.dtype, gamma.dtype)


def _backward(
    dy: NDArray, saved: Saved, out: checks.Outputs | None = None
) -> tuple[NDArray, NDArray, NDArray]:
    vjp, shape, dtype, gamma_dtype = saved
    checks.backward(dy, shape, dtype)
    results = checks.gradients(out, shape, dtype, gamma_dtype, (dy,))
    with _float64():
        for result, values in zip(results, _compiled_backward()(vjp, _array(dy)), strict=True):
            result[...] = values
    return results


@cache
def _compiled_forward(layer_norm: LayerNorm) -> Callable[..., Any]:
    import jax

    return jax.jit(lambda x, gamma, beta, eps: jax.vjp(partial(layer_norm, eps=eps), x, gamma, beta))


@cache
def _compiled_backward() -> Callable[..., Any]:
    import jax

    return jax.jit(lambda vjp, dy: vjp(dy))


def _array(array: NDArray) -> Any:
    import jax.numpy as jnp

    return jnp.array(array)


def _float64() -> Any:
    import jax

    return jax.enable_x64(True)

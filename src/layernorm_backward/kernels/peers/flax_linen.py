"""Flax's linen.LayerNorm, with use_fast_variance (its default) and without; differentiated by JAX.

With it the variance is max(0, mean(x^2) - mean(x)^2), without it mean((x - mean)^2); 16-bit input is widened
to float32 first. Read in flax/linen/normalization.py of Flax 0.12.8.
"""

from functools import partial
from typing import Any

from layernorm_backward.kernels.peers.by_vjp import kernel

_SOURCE = "Flax: linen.LayerNorm(epsilon=eps, use_fast_variance={}), jax.jit of its jax.vjp"


def _applied(x: Any, gamma: Any, beta: Any, eps: Any, *, fast: bool) -> Any:
    from flax import linen

    layer = linen.LayerNorm(epsilon=eps, use_fast_variance=fast)
    return layer.apply({"params": {"scale": gamma, "bias": beta}}, x)


FAST, TWO_PASS = (
    kernel(name, partial(_applied, fast=fast), 1e-6, _SOURCE.format(fast), "flax", "jax")
    for name, fast in (("flax", True), ("flax_stable", False))
)

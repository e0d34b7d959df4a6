"""Layer normalization as written with jax.nn.standardize, with each of its two variance algorithms.

`algorithm="fast"`, its default, takes mean(x^2) - mean(x)^2; "stable" takes mean((x - mean(x))^2). Both take
mean and variance in the dtype of x. Read in jax/_src/nn/functions.py of JAX 0.10.2.
"""

from functools import partial
from typing import Any

from layernorm_backward.kernels.peers.by_vjp import kernel

_SOURCE = "JAX: gamma*jax.nn.standardize(x, epsilon=eps, algorithm={!r}) + beta, jax.jit of its jax.vjp"


def _standardized(x: Any, gamma: Any, beta: Any, eps: Any, *, algorithm: str) -> Any:
    import jax

    return gamma * jax.nn.standardize(x, epsilon=eps, algorithm=algorithm) + beta


FAST, STABLE = (
    kernel(name, partial(_standardized, algorithm=algorithm), 1e-5, _SOURCE.format(algorithm), "jax")
    for name, algorithm in (("jax", "fast"), ("jax_stable", "stable"))
)

"""JAX's passes for a worker: gamma*jax.nn.standardize(x) + beta and JAX's own vjp of it, compiled by jax.jit.

The backward pass is the jitted vjp on what the forward pass saved; forward and backward together are one
jitted function. x and dy are used in place where DLPack supports their dtype, else copied before anything is
timed.

Options:
  default  results are new arrays, as in JAX.
  reuse    the arrays of size (N, D) of the last results are donated to the next call, which writes into them.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from numpy.typing import NDArray

from layernorm_backward.dtypes import dtype_of
from layernorm_backward.peers_at_work.protocol import Work
from layernorm_backward.peers_at_work.worker import Pass

jax.config.update("jax_enable_x64", True)


def prepare(work: Work, x: NDArray, dy: NDArray, option: str) -> Pass:
    """The pass that `work` asks for; the number of threads was set when the process began (`settings`)."""

    def layer_norm(x: Any, gamma: Any, beta: Any) -> Any:
        return (gamma * jax.nn.standardize(x, epsilon=work.eps) + beta).astype(x.dtype)

    x, dy, gamma, beta = map(_array, (x, dy, work.gamma, work.beta))
    if work.direction == "forward":
        function, arguments = (lambda *given: (layer_norm(*given),)), (x, gamma, beta)
    elif work.direction == "backward":
        _, saved = jax.jit(lambda *given: jax.vjp(layer_norm, *given))(x, gamma, beta)
        function, arguments = (lambda saved, dy: saved(dy)), (saved, dy)
    else:
        function, arguments = _both(layer_norm), (x, gamma, beta, dy)
    call = _reusing(function, arguments, x.shape) if option == "reuse" else _plain(function, arguments)
    return Pass(call, tuple, f"jax {jax.__version__}")


def _both(layer_norm: Callable[..., Any]) -> Callable[..., Any]:
    def both(x: Any, gamma: Any, beta: Any, dy: Any) -> tuple[Any, ...]:
        y, vjp = jax.vjp(layer_norm, x, gamma, beta)
        return y, *vjp(dy)

    return both


def _plain(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[[], Any]:
    compiled = jax.jit(function)
    return lambda: jax.block_until_ready(compiled(*arguments))


def _reusing(
    function: Callable[..., Any], arguments: tuple[Any, ...], shape: tuple[int, ...]
) -> Callable[[], Any]:
    """A call whose large results reuse the memory of those of the previous call."""
    compiled = jax.jit(lambda _, *given: function(*given), donate_argnums=0, keep_unused=True)
    large = [result for result in jax.eval_shape(function, *arguments) if result.shape == shape]
    last = [jnp.zeros(result.shape, result.dtype) for result in large]

    def call() -> Any:
        results = jax.block_until_ready(compiled(last, *arguments))
        last[:] = [result for result in results if result.shape == shape]
        return results

    return call


def _array(array: NDArray) -> Any:
    return jnp.asarray(array) if array.dtype == dtype_of("bfloat16") else jnp.from_dlpack(array)

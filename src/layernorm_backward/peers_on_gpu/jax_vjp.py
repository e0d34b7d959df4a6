"""JAX: gamma*jax.nn.standardize(x) + beta in float32 or wider, compiled by XLA, and JAX's vjp of it.

The backward pass is compiled in two ways, and the faster of them taken:
  saved       the vjp on whatever JAX keeps of the forward pass, which is then written and read again
  recomputed  from x and gamma alone, in one function

XLA has a stream of its own, and results are new arrays. So a pass cannot be captured with CuPy's or PyTorch's
means; XLA makes CUDA graphs of its own kernels where it sees fit. Arrays are copied to JAX before anything is
timed, and XLA takes memory only as it needs it, since it is not alone on the device.
"""

import os
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.peers_on_gpu.bridge import on_host, to_host
from layernorm_backward.peers_on_gpu.contender import Call, Contender

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # read when JAX first looks for devices

import jax
import jax.numpy as jnp

RUNS = 5
TRIES = 3
_NOTE = (
    "jax.jit of gamma*jax.nn.standardize(x) + beta and of its vjp: {way} (by the host's clock: {times}); "
    "not captured: XLA has a stream of its own"
)


class _Way(NamedTuple):
    """Compiled passes: the forward one returns y first, the backward one dx, dgamma, dbeta."""

    name: str
    forward: Callable[[], Any]
    backward: Callable[[], Any]


def prepare(x: Any, gamma: Any, beta: Any, dy: Any, eps: float) -> Contender:
    """float64 switches JAX's 64-bit types on for the process. ValueError where only x is on a GPU."""
    if not on_host(x) and jax.default_backend() != "gpu":
        raise ValueError(f"JAX has no GPU here, only {jax.default_backend()}")
    if np.float64 in (x.dtype, gamma.dtype):
        jax.config.update("jax_enable_x64", True)
    *inputs, dy = (jax.device_put(to_host(array)) for array in (x, gamma, beta, dy))
    ways = [(_seconds(way.backward), way) for way in _ways(_layer_norm(eps), tuple(inputs), dy)]
    _, fastest = min(ways, key=lambda one: one[0])
    times = ", ".join(f"{way.name} {1e6 * seconds:.0f} us" for seconds, way in ways)
    return _contender(fastest, _NOTE.format(way=fastest.name, times=times))


def _layer_norm(eps: float) -> Callable[..., Any]:
    def layer_norm(x: Any, gamma: Any, beta: Any) -> Any:
        wide = jnp.promote_types(x.dtype, jnp.float32)
        return (gamma * jax.nn.standardize(x.astype(wide), epsilon=eps) + beta).astype(x.dtype)

    return layer_norm


def _ways(layer_norm: Callable[..., Any], inputs: tuple[Any, ...], dy: Any) -> list[_Way]:
    keeping = jax.jit(lambda *given: jax.vjp(layer_norm, *given))
    _, saved = keeping(*inputs)
    apply = jax.jit(lambda saved, dy: saved(dy))
    plain = jax.jit(lambda *given: (layer_norm(*given),))
    again = jax.jit(lambda dy, *given: jax.vjp(layer_norm, *given)[1](dy))
    return [
        _Way("saved", lambda: keeping(*inputs), lambda: apply(saved, dy)),
        _Way("recomputed", lambda: plain(*inputs), lambda: again(dy, *inputs)),
    ]


def _seconds(call: Callable[[], Any]) -> float:
    """Seconds a run, the least of a few tries, each of runs one after the other."""
    jax.block_until_ready(call())
    taken = []
    for _ in range(TRIES):
        started = perf_counter()
        for _ in range(RUNS):
            last = call()
        jax.block_until_ready(last)
        taken.append((perf_counter() - started) / RUNS)
    return min(taken)


def _contender(way: _Way, note: str) -> Contender:
    kept: dict[str, Any] = {}

    def forward() -> None:
        kept.pop("y", None)  # its memory is taken again
        kept["y"] = way.forward()[0]

    def backward() -> None:
        kept.pop("gradients", None)
        kept["gradients"] = way.backward()

    def results() -> tuple[NDArray, ...]:
        return tuple(np.asarray(one) for one in (kept["y"], *kept["gradients"]))

    contender = Contender(forward, backward, results, None, note, _waiter(kept))
    forward()
    backward()
    contender.synchronize()
    return contender


def _waiter(kept: dict[str, Any]) -> Call:
    def synchronize() -> None:
        jax.block_until_ready(list(kept.values()))

    return synchronize

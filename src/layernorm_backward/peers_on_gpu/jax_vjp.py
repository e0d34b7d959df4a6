"""JAX: gamma*jax.nn.standardize(x) + beta in float32 or wider, compiled by XLA, and JAX's vjp of it.

Each direction is timed at its fastest. The forward pass gives y and keeps nothing else. The backward pass is
compiled in two ways, and the faster of them taken:
  saved       the vjp on whatever JAX keeps of a forward pass, which was run before and is not timed
  recomputed  from x and gamma alone, in one function

XLA has a stream of its own, and results are new arrays. So a pass cannot be captured with CuPy's or PyTorch's
means; XLA makes CUDA graphs of its own kernels where it sees fit. On a GPU it shares the memory of inputs and
results with CuPy, and takes memory only as it needs it, since it is not alone on the device.
"""

import os
from collections.abc import Callable
from functools import cache
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from layernorm_backward.peers_on_gpu.bridge import on_device, on_host
from layernorm_backward.peers_on_gpu.contender import Call, Contender, Directions

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # read when JAX first looks for devices

import jax
import jax.numpy as jnp

RUNS = 5
TRIES = 3
_GPU = ("gpu", "cuda")  # what JAX has called its CUDA backend
_FUNCTION = "jax.jit of gamma*jax.nn.standardize(x) + beta"
_STREAM = "not captured: XLA has a stream of its own"

Pass = Callable[[], Any]


class _Compiled(NamedTuple):
    """Compiled functions: y; y and the vjp; dx, dgamma and dbeta of the vjp and dy; those of all inputs."""

    forward: Callable[..., Any]  # (x, gamma, beta)
    keeping: Callable[..., Any]  # (x, gamma, beta)
    saved: Callable[..., Any]  # (vjp, dy)
    recomputed: Callable[..., Any]  # (dy, x, gamma, beta)


def prepare(x: Any, gamma: Any, beta: Any, dy: Any, eps: float, directions: Directions) -> Contender:
    """float64 switches JAX's 64-bit types on for the process. ValueError where only x is on a GPU."""
    host = on_host(x)
    if not host and jax.default_backend() not in _GPU:
        raise ValueError(f"JAX has no GPU here, only {jax.default_backend()}")
    if np.float64 in (x.dtype, gamma.dtype):
        jax.config.update("jax_enable_x64", True)
    *inputs, dy = (
        jax.device_put(one) if host else jax.dlpack.from_dlpack(one) for one in (x, gamma, beta, dy)
    )
    compiled, passes, notes = _compiled(eps), {}, [_FUNCTION]
    if "forward" in directions:
        passes["forward"] = lambda: (compiled.forward(*inputs),)
        notes.append("forward: y alone, nothing kept for a backward pass")
    if "backward" in directions:
        passes["backward"], note = _fastest(_ways(compiled, inputs, dy))
        notes.append(f"backward: its vjp, {note}")
    return _contender(passes, "; ".join([*notes, _STREAM]), np.asarray if host else on_device)


@cache
def _compiled(eps: float) -> _Compiled:
    """The functions for one eps, the same ones each time, so that JAX finds what it has compiled."""

    def layer_norm(x: Any, gamma: Any, beta: Any) -> Any:
        wide = jnp.promote_types(x.dtype, jnp.float32)
        return (gamma * jax.nn.standardize(x.astype(wide), epsilon=eps) + beta).astype(x.dtype)

    return _Compiled(
        jax.jit(layer_norm),
        jax.jit(lambda *given: jax.vjp(layer_norm, *given)),
        jax.jit(lambda saved, dy: saved(dy)),
        jax.jit(lambda dy, *given: jax.vjp(layer_norm, *given)[1](dy)),
    )


def _ways(compiled: _Compiled, inputs: list[Any], dy: Any) -> dict[str, Pass]:
    _, saved = compiled.keeping(*inputs)
    return {
        "saved": lambda: compiled.saved(saved, dy),
        "recomputed": lambda: compiled.recomputed(dy, *inputs),
    }


def _fastest(ways: dict[str, Pass]) -> tuple[Pass, str]:
    """The fastest way, and a note about it."""
    seconds = {name: _seconds(way) for name, way in ways.items()}
    name = min(seconds, key=seconds.__getitem__)
    times = ", ".join(f"{one} {1e6 * taken:.0f} us" for one, taken in seconds.items())
    return ways[name], f"{name} (by the host's clock: {times})"


def _seconds(call: Pass) -> float:
    """Seconds per run, the least of a few tries, each of runs one after the other."""
    jax.block_until_ready(call())
    taken = []
    for _ in range(TRIES):
        started = perf_counter()
        for _ in range(RUNS):
            last = call()
        jax.block_until_ready(last)
        taken.append((perf_counter() - started) / RUNS)
    return min(taken)


def _contender(passes: dict[str, Pass], note: str, array: Callable[[Any], Any]) -> Contender:
    kept: dict[str, Any] = {}

    def caller(which: str) -> Call:
        def call() -> None:
            kept.pop(which, None)  # its memory is taken again
            kept[which] = passes[which]()

        return call

    def results() -> tuple[Any, ...]:
        found = (*kept.get("forward", [None]), *kept.get("backward", [None] * 3))
        return tuple(one if one is None else array(one) for one in found)

    def synchronize() -> None:
        jax.block_until_ready(list(kept.values()))

    calls = {which: caller(which) for which in passes}
    for call in calls.values():
        call()
    synchronize()
    return Contender(calls.get("forward"), calls.get("backward"), results, None, note, synchronize)

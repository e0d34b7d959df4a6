"""JAX: gamma*jax.nn.standardize(x) + beta in float32 or wider, compiled by XLA, and JAX's vjp of it.

Each direction is timed at its fastest. The forward pass returns y and saves nothing. The backward pass is
compiled in two variants, of which the faster is used:
  saved       the vjp on the residuals of a forward pass, which was run before and is not timed
  recomputed  from x and gamma only, in one function

XLA has its own stream, and results are new arrays. So CuPy and PyTorch cannot capture a pass; XLA makes CUDA
graphs of its own kernels at its own discretion. On a GPU it shares the memory of inputs and results with
CuPy. It allocates memory on demand rather than in advance, since other packages use the device too.
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
_GPU = ("gpu", "cuda")  # the names that JAX has used for its CUDA backend
_FUNCTION = "jax.jit of gamma*jax.nn.standardize(x) + beta"
_STREAM = "not captured: XLA has its own stream"

Pass = Callable[[], Any]


class _Compiled(NamedTuple):
    """Compiled functions: y; y and the vjp; dx, dgamma and dbeta of the vjp and dy; those of all inputs."""

    forward: Callable[..., Any]  # (x, gamma, beta)
    keeping: Callable[..., Any]  # (x, gamma, beta)
    saved: Callable[..., Any]  # (vjp, dy)
    recomputed: Callable[..., Any]  # (dy, x, gamma, beta)


def prepare(x: Any, gamma: Any, beta: Any, dy: Any, eps: float, directions: Directions) -> Contender:
    """float64 enables JAX's 64-bit types for the process. ValueError where JAX has no GPU and x is on one."""
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
        notes.append("forward: y only, nothing saved for a backward pass")
    if "backward" in directions:
        passes["backward"], note = _fastest(_ways(compiled, inputs, dy))
        notes.append(f"backward: its vjp, {note}")
    return _contender(passes, "; ".join([*notes, _STREAM]), np.asarray if host else on_device)


@cache
def _compiled(eps: float) -> _Compiled:
    """The functions for one eps; the same objects each time, so that JAX reuses its compiled code."""

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
    """The fastest variant, and a note on it."""
    seconds = {name: _seconds(way) for name, way in ways.items()}
    name = min(seconds, key=seconds.__getitem__)
    times = ", ".join(f"{one} {1e6 * taken:.0f} us" for one, taken in seconds.items())
    return ways[name], f"{name} (by the host's clock: {times})"


def _seconds(call: Pass) -> float:
    """Seconds per run: the minimum over a few tries of several consecutive runs."""
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
            kept.pop(which, None)  # frees its memory for reuse
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

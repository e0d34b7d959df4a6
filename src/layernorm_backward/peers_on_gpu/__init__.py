"""Layer norms of other packages on a GPU, prepared to be timed beside our kernels on the same arrays.

Each peer runs in the fastest setting that we know. The host work of its package (Python, autograd) can be
kept out of its time. Importing this module imports none of their packages.

    torch_eager      PyTorch's own CUDA operators
    torch_compile    these operators compiled by torch.compile
    jax              JAX's layer norm and its vjp, compiled by XLA
    triton_tutorial  the scheme of Triton's tutorial on layer normalization
    liger            Liger Kernel, in Triton
    quack            QuACK, in the CuTe DSL
"""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from layernorm_backward.directions import DIRECTIONS
from layernorm_backward.host import installed
from layernorm_backward.peers_on_gpu import liger, quack, torch_compile, torch_eager, triton_tutorial
from layernorm_backward.peers_on_gpu.contender import Contender, Directions


class _Peer(NamedTuple):
    """How a peer is prepared, and what it requires: import names to distributions."""

    prepare: Callable[..., Contender]
    requires: dict[str, str]


def _jax(*given: Any) -> Contender:
    from layernorm_backward.peers_on_gpu import jax_vjp  # imports JAX

    return jax_vjp.prepare(*given)


_TORCH = {"torch": "torch"}
_TRITON = {"triton": "triton"} | _TORCH
_PEERS = {
    "torch_eager": _Peer(torch_eager.prepare, _TORCH),
    "torch_compile": _Peer(torch_compile.prepare, _TORCH),
    "jax": _Peer(_jax, {"jax": "jax", "jaxlib": "jaxlib"}),
    "triton_tutorial": _Peer(triton_tutorial.prepare, _TRITON),
    "liger": _Peer(liger.prepare, {"liger_kernel": "liger-kernel"} | _TRITON),
    "quack": _Peer(quack.prepare, {"quack": "quack-kernels", "cutlass": "nvidia-cutlass-dsl"} | _TORCH),
}
PEERS: tuple[str, ...] = tuple(_PEERS)


def missing(name: str) -> str:
    """Which packages are not installed; "" where all are. Nothing is imported."""
    names = [package for package in _peer(name).requires if not installed.is_there(package)]
    return f"not installed: {', '.join(names)}" if names else ""


def version(name: str) -> str:
    """The installed versions of a peer's packages, such as "triton 3.6.0, torch 2.11.0"."""
    return ", ".join(
        f"{one} {found}" for one in _peer(name).requires.values() if (found := installed.version(one))
    )


def prepare(
    name: str, x: Any, gamma: Any, beta: Any, dy: Any, eps: float, directions: Directions = DIRECTIONS
) -> Contender:
    """Prepare a peer on x, dy (N, D) and gamma, beta (D,): CuPy arrays, or NumPy arrays for a run on the CPU.

    Passes that are not among `directions` are not compiled, so they cannot fail. ValueError with the reason
    where the peer does not support the dtype or shape.
    """
    peer = _peer(name)
    _check(x, gamma, beta, dy)
    return peer.prepare(x, gamma, beta, dy, float(eps), directions)


def release() -> None:
    """Free the device memory that PyTorch caches, once no contender is referenced any more."""
    torch = sys.modules.get("torch")
    if torch and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _peer(name: str) -> _Peer:
    if name not in _PEERS:
        raise ValueError(f"unknown peer {name!r}; there are: {', '.join(PEERS)}")
    return _PEERS[name]


def _check(x: Any, gamma: Any, beta: Any, dy: Any) -> None:
    if x.ndim != 2 or not x.size:
        raise ValueError(f"x has shape {x.shape}; wanted: (N, D) with elements")
    wanted = {"dy": (dy, x.shape), "gamma": (gamma, x.shape[1:]), "beta": (beta, x.shape[1:])}
    for what, (array, shape) in wanted.items():
        if array.shape != shape:
            raise ValueError(f"{what} has shape {array.shape}; wanted: {shape}")
    if dy.dtype != x.dtype or beta.dtype != gamma.dtype:
        raise ValueError("dy must have the dtype of x, and beta that of gamma")
    if not all(array.flags.c_contiguous for array in (x, gamma, beta, dy)):
        raise ValueError("peers are given C-contiguous arrays only")

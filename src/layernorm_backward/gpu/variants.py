"""Kernels of ours as they are timed on a GPU: those of the registry, and variants of them."""

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

from layernorm_backward.gpu.reasons import Refusal
from layernorm_backward.kernels import KERNELS, Kernel
from layernorm_backward.kernels.cuda.machine import Machine
from layernorm_backward.untrusted.fitting import takes_out

Passes = tuple[Callable[..., Any], Callable[..., Any]]  # forward and backward
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "cuda_uncentred": ("cuda_fused", {"recentre": False}),
}  # name: a kernel, and how its backward pass differs

WANTED = "wanted on a GPU: forward(x, gamma, beta, eps, out) and backward(dy, saved, out), which fill `out`"


def ours(name: str) -> bool:
    """Whether a name is a kernel of ours or a variant of one."""
    return name in KERNELS or name in VARIANTS


def kernel_of(name: str) -> Kernel:
    """The kernel of a name, or that which it is a variant of; ValueError where others call theirs so."""
    return KERNELS[VARIANTS[name][0] if name in VARIANTS and name not in KERNELS else name]


def takes_machine(name: str) -> bool:
    """Whether a kernel lets itself be told its machine; one of another package need not."""
    return "machine" in signature(kernel_of(name).forward).parameters


def passes(name: str, machine: Machine) -> Passes:
    """forward and backward of a kernel or variant, on a machine where it can be told.

    Refusal where one does not take `out`: results would be checked, and timed, in memory of their own.
    """
    kernel = kernel_of(name)
    if False in map(takes_out, (kernel.forward, kernel.backward)):
        raise Refusal(f"{name}: {WANTED}")
    _, differing = VARIANTS.get(name, (name, {}))
    told = {"machine": machine} if takes_machine(name) else {}
    return partial(kernel.forward, **told), partial(kernel.backward, **told, **differing)

"""Our kernels as they are timed on a GPU: those of the registry, and variants of them."""

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
}  # name: the kernel, and the keyword arguments of its backward pass

WANTED = "wanted on a GPU: forward(x, gamma, beta, eps, out) and backward(dy, saved, out), which fill `out`"


def ours(name: str) -> bool:
    """Whether a name is one of our kernels, or a variant of one."""
    return name in KERNELS or name in VARIANTS


def kernel_of(name: str) -> Kernel:
    """The kernel of this name, or the one it is a variant of; a registered kernel takes precedence."""
    return KERNELS[VARIANTS[name][0] if name in VARIANTS and name not in KERNELS else name]


def takes_machine(name: str) -> bool:
    """Whether a kernel takes the argument `machine`; one of another package need not."""
    return "machine" in signature(kernel_of(name).forward).parameters


def passes(name: str, machine: Machine) -> Passes:
    """forward and backward of a kernel or variant, on this machine if the kernel takes one.

    Refusal where one does not take `out`: its results would be checked, and timed, in memory of their own.
    """
    kernel = kernel_of(name)
    if False in map(takes_out, (kernel.forward, kernel.backward)):
        raise Refusal(f"{name}: {WANTED}")
    _, differing = VARIANTS.get(name, (name, {}))
    given = {"machine": machine} if takes_machine(name) else {}
    return partial(kernel.forward, **given), partial(kernel.backward, **given, **differing)

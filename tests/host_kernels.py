"""The kernels that take NumPy arrays here: those for the CPU, and the CUDA kernels on the host emulation."""

import os
from dataclasses import replace
from functools import partial

from layernorm_backward.kernels import KERNELS, Kernel, missing
from layernorm_backward.kernels.cuda import emulation
from layernorm_backward.kernels.cuda.emulation import Emulation


def emulated(name: str, **how: object) -> Kernel:
    """A CUDA kernel on a host emulation with these options."""
    kernel, machine = KERNELS[name], Emulation(**how)
    passes = {one: partial(getattr(kernel, one), machine=machine) for one in ("forward", "backward")}
    return replace(kernel, name=f"{name} (emulated)", device="cpu", requires=(), **passes)


def _host() -> dict[str, Kernel]:
    here = {name: KERNELS[name] for name in KERNELS if KERNELS[name].device == "cpu"}
    found = {name: kernel for name, kernel in here.items() if not missing(kernel)}
    if os.environ.get("CI") or not emulation.missing():
        found |= {f"{name} (emulated)": emulated(name) for name in ("cuda_fused", "cuda_separate")}
    return found


HOST = _host()

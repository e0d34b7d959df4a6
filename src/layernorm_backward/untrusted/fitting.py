"""Checks of what a kernel returns: y, dx must be like x, dgamma, dbeta like gamma, in shape and dtype."""

import dataclasses
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any

import numpy as np

from layernorm_backward.derivations.gradients import Gradients
from layernorm_backward.kernels import Kernel
from layernorm_backward.untrusted import watch


class MisfitError(ValueError):
    """A result that does not fit; the message says which, what it is and what is expected."""


def fitting(kernel: Kernel) -> Kernel:
    """The same kernel, raising MisfitError where something that it returns does not fit.

    NumPy's handling of floating-point errors is after each call what it was before.

    dgamma and dbeta are to have the dtype of the gamma of the last forward pass.
    """
    gamma_dtype: np.dtype | None = None

    @wraps(kernel.forward)
    def forward(x: Any, gamma: Any, *arguments: Any, **out: Any) -> tuple[Any, Any]:
        nonlocal gamma_dtype
        gamma_dtype = gamma.dtype
        watch.update(function="forward")
        with np.errstate():
            returned = kernel.forward(x, gamma, *arguments, **out)
        y, saved = parts("forward", returned, 2, "y, saved")
        require_like("y", y, x.shape, x.dtype)
        return y, saved

    @wraps(kernel.backward)
    def backward(dy: Any, saved: Any, **out: Any) -> tuple[Any, Any, Any]:
        watch.update(function="backward")
        with np.errstate():
            returned = kernel.backward(dy, saved, **out)
        found = parts("backward", returned, 3, "dx, dgamma, dbeta")
        for name, part in zip(Gradients._fields, found, strict=True):
            wanted = (dy.shape, dy.dtype) if name == "dx" else (dy.shape[-1:], gamma_dtype)
            require_like(name, part, *wanted)
        return found

    return dataclasses.replace(kernel, forward=forward, backward=backward)


def takes_out(function: Callable[..., Any]) -> bool | None:
    """Whether a function has a parameter `out` for its results; None where it does not say.

    One that takes any name does not say, nor need one that is not written in Python.
    """
    try:
        parameters = signature(function).parameters
    except ValueError:
        return None
    unsaid = any(one.kind is Parameter.VAR_KEYWORD for one in parameters.values())
    return "out" in parameters or (None if unsaid else False)


def parts(role: str, returned: Any, length: int, names: str) -> tuple:
    """What a function returned as a tuple; MisfitError where it is none of that length."""
    if isinstance(returned, tuple | list) and len(returned) == length:
        return tuple(returned)
    raise MisfitError(f"{role} returned {_described(returned)}; expected: {names}")


def require_like(name: str, found: Any, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """MisfitError where a result is no array of this shape and dtype."""
    if type(found) is not np.ndarray or (found.shape, found.dtype) != (shape, dtype):
        raise MisfitError(f"{name} is {_described(found)}; expected: an array {shape} of {dtype}")


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        what = "an array" if type(value) is np.ndarray else f"a {type(value).__name__}"
        return f"{what} {value.shape} of {value.dtype}"
    size = f" of length {len(value)}" if isinstance(value, tuple | list) else ""
    return f"a {type(value).__name__}{size}"

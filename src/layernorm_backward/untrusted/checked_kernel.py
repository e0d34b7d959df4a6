"""Kernels of a study may be foreign code: errors that they cause name the kernel."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, NoReturn

from layernorm_backward.kernels import Kernel
from layernorm_backward.untrusted.fitting import MisfitError, fitting
from layernorm_backward.untrusted.raised import FAILURES, broken, is_ours


class BrokenError(ValueError):
    """What a kernel raised, or returned that does not fit, in one line that names the kernel."""

    def __init__(self, kernel: str, said: str) -> None:
        super().__init__(said)
        self.kernel = kernel


def checked(kernel: Kernel) -> Kernel:
    """The same kernel, raising BrokenError; what a kernel of ours raises stays as it is. Not to be timed."""
    fit = fitting(kernel)
    return replace(fit, forward=_naming(fit, "forward"), backward=_naming(fit, "backward"))


def _naming(kernel: Kernel, role: str) -> Callable[..., Any]:
    function = getattr(kernel, role)

    @wraps(function)
    def call(*arguments: Any, **out: Any) -> Any:
        try:
            return function(*arguments, **out)
        except FAILURES as error:
            blame(kernel, role, error)

    return call


def blame(kernel: Kernel, role: str, error: BaseException) -> NoReturn:
    """Raise BrokenError for what a kernel raised in this role; what one of ours raised as it is."""
    if is_ours(kernel, role) and not isinstance(error, MisfitError):
        raise error
    raise BrokenError(kernel.name, str(broken(kernel, role, error))) from error

"""A kernel's passes over the arrays of a problem, into them where it takes `out`."""

from collections.abc import Callable
from typing import Any, NamedTuple

from numpy.typing import NDArray

from layernorm_backward.bench.setting import EPS
from layernorm_backward.derivations.gradients import Gradients
from layernorm_backward.kernels import Kernel
from layernorm_backward.timing.pool import Buffers
from layernorm_backward.untrusted.fitting import parts, require_like, takes_out
from layernorm_backward.untrusted.raised import FAILURES, broken

Outputs = tuple[NDArray, NDArray, NDArray]


class Passes(NamedTuple):
    """forward() -> y, saved and backward(saved) -> dx, dgamma, dbeta, and the arrays that each writes to."""

    forward: Callable[[], tuple]
    backward: Callable[[Any], Outputs]
    to_y: tuple[NDArray, ...]
    to_gradients: tuple[NDArray, ...]


def passes(kernel: Kernel, arrays: Buffers) -> Passes:
    """What a kernel raises, and results that cannot be taken apart, are told in one line."""
    x, dy, dx, gamma, beta, dgamma, dbeta, y, *_ = arrays
    to_y = (y,) if takes_out(kernel.forward) else ()
    to_gradients = (dx, dgamma, dbeta) if takes_out(kernel.backward) else ()
    y_out, gradients_out = {"out": y} if to_y else {}, {"out": to_gradients} if to_gradients else {}

    def forward() -> tuple[NDArray, Any]:
        try:
            return parts("forward", kernel.forward(x, gamma, beta, EPS, **y_out), 2, "y, saved")
        except FAILURES as error:
            raise broken(kernel, "forward", error) from None

    def backward(saved: Any) -> Outputs:
        try:
            return parts("backward", kernel.backward(dy, saved, **gradients_out), 3, "dx, dgamma, dbeta")
        except FAILURES as error:
            raise broken(kernel, "backward", error) from None

    return Passes(forward, backward, to_y, to_gradients)


def named(name: str, gradients: Outputs, arrays: Buffers) -> dict[str, NDArray]:
    """The gradients by name; MisfitError, with the name of the kernel, where one is unlike its array."""
    wanted = dict(zip(Gradients._fields, (arrays.out, arrays.dgamma, arrays.dbeta), strict=True))
    found = dict(zip(Gradients._fields, gradients, strict=True))
    for result, like in wanted.items():
        require_like(f"{name}: {result}", found[result], like.shape, like.dtype)
    return found


def require_y(name: str, y: Any, arrays: Buffers) -> None:
    """MisfitError, with the name of the kernel, where y is unlike its array."""
    require_like(f"{name}: y", y, arrays.y.shape, arrays.y.dtype)

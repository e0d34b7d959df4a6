"""Two further formulas of the published implementation `overcached`, as its documentation states them."""

from numpy.typing import NDArray

from layernorm_backward.derivations.gradients import Gradients
from layernorm_backward.kernels.reference import forward_equations


def centring_trick(x: NDArray, gamma: NDArray, beta: NDArray, dy: NDArray, eps: float) -> Gradients:
    """t = dz/std; dx = t - x_norm*mean(t*x_norm); dx = dx - mean(dx): correct, since mean(x_norm) is 0."""
    forward = forward_equations(x, gamma, beta, eps)
    x_norm, rows = forward.x_hat, tuple(range(x.ndim - 1))
    t = dy * gamma * forward.rstd  # (..., D)
    dx = t - x_norm * (t * x_norm).mean(axis=-1, keepdims=True)  # (..., D)
    dx = dx - dx.mean(axis=-1, keepdims=True)  # (..., D)
    return Gradients(dx, (dy * x_norm).sum(axis=rows), dy.sum(axis=rows))


def docstring_formula(x: NDArray, gamma: NDArray, beta: NDArray, dy: NDArray, eps: float) -> Gradients:
    """dx = (gamma/std)*(dy - mean(dy) - x_norm*mean(dy*x_norm)): wrong unless gamma is uniform."""
    forward = forward_equations(x, gamma, beta, eps)
    x_norm, rows = forward.x_hat, tuple(range(x.ndim - 1))
    c2 = (dy * x_norm).mean(axis=-1, keepdims=True)  # (..., 1)
    dx = gamma * forward.rstd * (dy - dy.mean(axis=-1, keepdims=True) - x_norm * c2)  # (..., D)
    return Gradients(dx, (dy * x_norm).sum(axis=rows), dy.sum(axis=rows))

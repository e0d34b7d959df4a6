"""The forward pass differentiated by a complex step (Squire & Trapp 1998), without a subtraction."""

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.derivations.gradients import Gradients
from layernorm_backward.kernels.reference import forward_equations

STEP = 1e-100  # its square is below the smallest float64, so the truncation error is 0


def complex_step(x: NDArray, gamma: NDArray, beta: NDArray, dy: NDArray, eps: float) -> Gradients:
    """dx, dgamma, dbeta as Im f(p + ih)/h, one column of x or one element of gamma, beta at a time.

    The forward pass must not conjugate (np.var does, and gives a wrong derivative here).
    """
    units = 1j * STEP * np.eye(x.shape[-1])

    def slope(step_x: NDArray, step_gamma: NDArray, step_beta: NDArray) -> NDArray:
        moved = forward_equations(x + step_x, gamma + step_gamma, beta + step_beta, eps)
        return (dy * moved.y.imag / STEP).sum(axis=-1)  # (...)

    still = np.zeros_like(units[0])
    dx = np.stack([slope(unit, still, still) for unit in units], axis=-1)
    dgamma = np.array([slope(still, unit, still).sum() for unit in units])
    dbeta = np.array([slope(still, still, unit).sum() for unit in units])
    return Gradients(dx, dgamma, dbeta)

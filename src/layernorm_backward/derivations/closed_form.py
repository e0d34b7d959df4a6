"""Three derivations by hand: the projection, the chain rule node by node, and the full Jacobian."""

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.derivations.gradients import Gradients
from layernorm_backward.kernels.reference import backward_equations, forward_equations
from layernorm_backward.portable import power


def projection(x: NDArray, gamma: NDArray, beta: NDArray, dy: NDArray, eps: float) -> Gradients:
    """Equations (6) to (11) as printed: g less its components along 1 and along x_hat."""
    forward = forward_equations(x, gamma, beta, eps)
    found = backward_equations(dy, forward.x_hat, forward.rstd, gamma)
    return Gradients(found.dx, found.dgamma, found.dbeta)


def chain_rule(x: NDArray, gamma: NDArray, beta: NDArray, dy: NDArray, eps: float) -> Gradients:
    """Backwards through the graph y <- x_hat <- (x, mean, var), one adjoint per line."""
    mean, var, rstd, x_hat, _ = forward_equations(x, gamma, beta, eps)
    centred, hidden = x - mean, x.shape[-1]
    rows = tuple(range(x.ndim - 1))
    dx_hat = dy * gamma  # (..., D)
    drstd = (dx_hat * centred).sum(axis=-1, keepdims=True)  # (..., 1)
    dvar = -0.5 * drstd * power(var + eps, -1.5)  # (..., 1)
    dcentred = dx_hat * rstd + dvar * 2 * centred / hidden  # (..., D)
    dmean = -dcentred.sum(axis=-1, keepdims=True)  # (..., 1)
    dx = dcentred + dmean / hidden  # (..., D)
    return Gradients(dx, (dy * x_hat).sum(axis=rows), dy.sum(axis=rows))


def dense_jacobian(x: NDArray, gamma: NDArray, beta: NDArray, dy: NDArray, eps: float) -> Gradients:
    """dx_j = sum_i dy_i dy_i/dx_j with the D x D Jacobian of every row written out, 8 D^2 bytes per row."""
    hidden = x.shape[-1]
    forward = forward_equations(x.reshape(-1, hidden), gamma, beta, eps)
    x_hat, rows = forward.x_hat, dy.reshape(-1, hidden)
    outer = x_hat[:, :, None] * x_hat[:, None, :]  # (N, D, D)
    jacobian = forward.rstd[:, :, None] * (np.eye(hidden) - 1 / hidden - outer / hidden)  # (N, D, D)
    dx = np.einsum("ni,i,nij->nj", rows, gamma, jacobian)
    dgamma = np.einsum("ni,nij->j", rows, x_hat[:, :, None] * np.eye(hidden))
    dbeta = np.einsum("ni,ij->j", rows, np.eye(hidden))
    return Gradients(dx.reshape(x.shape), dgamma, dbeta)

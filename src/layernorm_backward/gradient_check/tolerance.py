"""The error that a correct gradient may show, and the step at which it is smallest.

Of row n, with s = sqrt(var + eps), t = step/s, r = 1/s, kappa = sqrt(1 + (mean/s)^2):

    |error| <= SAFETY * r * (truncation * t^p * |g| + kappa*u*depth * (1 + amplification*sqrt(D)/t) * |dy*m|)

in 2-norms, where u*kappa*m, m = |gamma|*(|x_hat| + 1) + |beta|, is the rounding error of y and depth =
log2(D) + 2. The right side is smallest at t of order (kappa*u)^(1/(p+1)). y is linear in gamma and beta, so
their differences have no truncation error, and the largest step is the best.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.dtypes import unit_roundoff
from layernorm_backward.gradient_check.methods import Method
from layernorm_backward.gradient_check.points import Point
from layernorm_backward.inputs import values
from layernorm_backward.kernels.reference import forward_equations
from layernorm_backward.portable import norm, power

SAFETY = 2.0  # three times the largest ratio seen over kernels, dtypes, methods, shapes and seeds
PARAMETER_STEP = 1.0
IMAGINARY_STEP = 1e-100


class Model(NamedTuple):
    """Of each row: s, |g|, kappa*u*depth*|dy*m|, and the spacing of its largest element, shape (...,);
    of the columns: |sum kappa*u*|dy|*m|."""

    scale: NDArray[np.float64]
    signal: NDArray[np.float64]
    noise: NDArray[np.float64]
    spacing: NDArray[np.float64]
    column_noise: float
    rows: int
    hidden: int


def model(point: Point, eps: float) -> Model:
    """The error model at a point; statistics in float64."""
    x, gamma, beta, dy = (values(part) for part in point)
    mean, var, _, x_hat, _ = forward_equations(x, gamma, beta, eps)
    scale = np.sqrt(var + eps)  # (..., 1)
    rounding = unit_roundoff(point.x.dtype) * np.hypot(1, mean / scale)  # (..., 1)
    size = np.abs(gamma) * (np.abs(x_hat) + 1) + np.abs(beta)  # (..., D)
    signal = np.linalg.norm(gamma * dy, axis=-1)
    hidden = x.shape[-1]
    noise = (math.log2(hidden) + 2) * np.linalg.norm(rounding * dy * size, axis=-1)
    columns = (rounding * np.abs(dy) * (size + np.abs(x_hat) + 1)).reshape(-1, hidden).sum(axis=0)
    spacing = 2 * unit_roundoff(point.x.dtype) * np.abs(x).max(axis=-1)
    return Model(scale[..., 0], signal, noise, spacing, float(norm(columns)), signal.size, hidden)


def best_step(found: Model, method: Method) -> NDArray[np.float64]:
    """The step of every row that makes the modelled error of dx smallest, shape (...,).

    It is at least the spacing of the row's numbers; where this is as large as s, the tolerance grows with it.
    """
    if method.imaginary:
        return np.full(found.scale.shape, IMAGINARY_STEP)
    rounding = method.amplification * np.sqrt(found.hidden) * _ratio(found.noise, found.signal)
    best = power(rounding / (method.order * method.truncation), 1 / (method.order + 1))
    nearest = min(offset for offset, _ in method.terms)
    return np.maximum(np.minimum(best, 0.5) * found.scale, 2 * found.spacing / nearest)


def dx_tolerance(found: Model, method: Method, step: NDArray | float) -> NDArray[np.float64]:
    """The bound of the 2-norm of each row's error for a correct dx, shape (...,)."""
    t = step / found.scale
    spread = _noise_rows(found, method)
    truncation = method.truncation * power(t, method.order) * found.signal
    return SAFETY / found.scale * (truncation + found.noise + method.amplification / t * spread)


def parameter_tolerance(found: Model, method: Method, step: float) -> float:
    """The bound of the 2-norm of the error for a correct dgamma or dbeta; sums over rows are running sums."""
    growth = math.log2(found.hidden) + 2 + np.sqrt(found.rows) + method.amplification / step
    return SAFETY * float(growth) * found.column_noise


def _noise_rows(found: Model, method: Method) -> NDArray[np.float64]:
    """The rounding error of a row's share of the loss, or of the whole loss if it is differenced."""
    noise = np.full_like(found.noise, norm(found.noise)) if method.of_loss else found.noise
    return np.sqrt(found.hidden) * noise


def _ratio(noise: NDArray, signal: NDArray) -> NDArray:
    return np.divide(noise, signal, out=np.ones_like(noise), where=signal > 0)

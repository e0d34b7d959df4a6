"""The reference: the forward pass differentiated in ball arithmetic (Arb), with a certified radius.

A power series c0 + c1*t + O(t^2) is propagated through equations (1) to (5), once per element; its c1 is the
derivative. No formula for the gradient is used. Every number is a ball that provably contains the true value,
so an error measured against it is certified as well.
"""

from typing import NamedTuple

import numpy as np
from flint import arb, arb_series, ctx
from numpy.typing import NDArray

from layernorm_backward.derivations.gradients import Gradients

PRODUCT_BITS = 106  # products of float64 are exact in these
BITS = 256  # the radius is then near 2**-240
MOST_BITS = 1024  # with more, a radius would underflow float64
_ZERO = arb_series([0])


class Balls(NamedTuple):
    """Flat lists in C order: dx of x.size balls, dgamma and dbeta of D."""

    dx: list[arb]
    dgamma: list[arb]
    dbeta: list[arb]


def balls(x: NDArray, gamma: NDArray, beta: NDArray, dy: NDArray, eps: float, bits: int = BITS) -> Balls:
    """The gradients of sum(dy * y) at the given float64 numbers, taken as exact; x (..., D)."""
    hidden = x.shape[-1]
    found = Balls([], [arb(0)] * hidden, [arb(0)] * hidden)
    with ctx.workprec(bits):
        scale, shift = _arbs(gamma), _arbs(beta)
        for row, upstream in zip(x.reshape(-1, hidden), dy.reshape(-1, hidden), strict=True):
            point, weights = _arbs(row), _arbs(upstream)
            x_hat = _x_hat(point, eps)
            for j in range(hidden):
                moved = _x_hat(_moved(point, j), eps)
                found.dx.append(_slope(moved, scale, shift, weights))
                found.dgamma[j] += _slope(x_hat, _moved(scale, j), shift, weights)
                found.dbeta[j] += _slope(x_hat, scale, _moved(shift, j), weights)
    return found


def exact(x: NDArray, gamma: NDArray, beta: NDArray, dy: NDArray, eps: float) -> Gradients:
    """The midpoints, each rounded once to float64."""
    dx, dgamma, dbeta = (
        np.array([float(ball.mid()) for ball in part]) for part in balls(x, gamma, beta, dy, eps)
    )
    return Gradients(dx.reshape(x.shape), dgamma, dbeta)


def radius(truth: list[arb]) -> float:
    """The 2-norm of the radii over the 2-norm of the gradient, rounded up: the accuracy of the reference."""
    return _ratio([ball.rad() for ball in truth], truth)


def rel_error(values: NDArray[np.float64], truth: list[arb]) -> float:
    """2-norm of the error over 2-norm of the truth, rounded up; 0 where both are exactly 0."""
    return _ratio([value - ball for value, ball in zip(_arbs(values.ravel()), truth, strict=True)], truth)


def _x_hat(x: list, eps: float) -> list[arb_series]:
    mean = sum(x, _ZERO) / len(x)
    z = [element - mean for element in x]
    var = sum((element * element for element in z), _ZERO) / len(x)
    rstd = (var + arb(eps)).rsqrt()
    return [element * rstd for element in z]


def _slope(x_hat: list, gamma: list, beta: list, dy: list[arb]) -> arb:
    """The coefficient of t in sum(dy * y), one row; one of x_hat, gamma, beta carries t."""
    terms = (d * (g * element + b) for d, g, element, b in zip(dy, gamma, x_hat, beta, strict=True))
    return sum(terms, _ZERO)[1]


def _moved(values: list[arb], index: int) -> list:
    return [*values[:index], arb_series([values[index], 1], prec=2), *values[index + 1 :]]


def _arbs(values: NDArray[np.float64]) -> list[arb]:
    return [arb(float(value)) for value in values]


def _ratio(errors: list[arb], truth: list[arb]) -> float:
    with ctx.workprec(BITS):
        norm = sum((ball * ball for ball in truth), arb(0)).sqrt()
        error = sum((ball * ball for ball in errors), arb(0)).sqrt()
        return 0.0 if error.is_zero() else float((error / norm).upper())

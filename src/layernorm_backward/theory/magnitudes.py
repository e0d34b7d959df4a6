"""The largest sum of magnitudes in an algorithm for mean and variance; if it may overflow, no bound holds."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from layernorm_backward import oracle
from layernorm_backward.double_double import Floats
from layernorm_backward.theory.exact_rows import kappa


class Rows(NamedTuple):
    """Of rows (rows, D): kappa, first = |x_1 - mean|/std and std, shape (rows,), and D."""

    kappa: Floats
    first: Floats
    std: Floats
    hidden: int

    @property
    def mu(self) -> Floats:
        """|mean|/std."""
        return np.sqrt((self.kappa - 1) * (self.kappa + 1))


def rows_of(moments: oracle.Moments) -> Rows:
    """The quantities of rows with these exact moments; no row is constant."""
    std = np.sqrt(moments.variance.hi)
    return Rows(kappa(moments), np.abs(moments.centred.hi[:, 0]) / std, std, moments.centred.hi.shape[-1])


def sums(rows: Rows, drift: Floats) -> Floats:
    """Sums of x, and of the squares of z = x - m, where m is off by the drift."""
    return np.maximum(rows.hidden * rows.kappa * rows.std, spread(rows, drift))


def squares(rows: Rows, drift: Floats) -> Floats:
    """Sums of x and of its squares."""
    return rows.hidden * np.maximum(1.0, rows.kappa * rows.std) ** 2


def square_of_sum(rows: Rows, drift: Floats) -> Floats:
    """The square of sum(x), and of D."""
    return rows.hidden * squares(rows, drift)


def spread(rows: Rows, drift: Floats) -> Floats:
    """The sum of the squares of z alone: a running mean forms no sum of x."""
    return rows.hidden * rows.std**2 * (1 + drift**2)


def from_first(rows: Rows, drift: Floats) -> Floats:
    """Sums of x - x_1 and of its squares."""
    return rows.hidden * np.maximum(1.0, rows.std**2 * (1 + rows.first**2))


# variance algorithm -> magnitude(rows, drift); the others form `sums`
MAGNITUDES: dict[str, Callable[[Rows, Floats], Floats]] = {
    "naive": squares,
    "naive_s2": square_of_sum,
    "naive_nn": square_of_sum,
    "naive_compensated": squares,
    "welford": spread,
    "chan": spread,
    "shifted": from_first,
}

"""Rows of rational numbers, whose rounding errors a test chooses: a result is multiplied by 1 + delta.

With all deltas equal the worst case is attained, so a count of roundings that is off by one is detected, from
above and from below.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np

U = Fraction(1, 10**9)
SLACK = Fraction(1, 10**6)  # tolerance of a count of roundings, for the terms in U^2


def mean(values):
    return sum(values, Fraction(0)) / len(values)


def square(values):
    return mean([value**2 for value in values])


def rms(values):
    return float(square(values)) ** 0.5


def rounded_tree(values, u):
    """A tree sum whose every addition gains a factor 1 + u."""
    while len(values) > 1:
        half = len(values) // 2
        pairs = zip(values[:half], values[half : 2 * half], strict=True)
        values = [(one + other) * (1 + u) for one, other in pairs] + values[2 * half :]
    return values[0]


def roundings(found, exact, scale):
    """How many roundings of `scale` the error of `found` amounts to."""
    return abs(found - exact) / (U * scale)


def near(found, wanted):
    return abs(found - wanted) <= SLACK * max(abs(wanted), 1)


class Row(NamedTuple):
    """A row in rational numbers: x, g and r; eps is whatever makes r the reciprocal deviation."""

    x: list[Fraction]
    g: list[Fraction]
    r: Fraction

    @property
    def mean(self):
        return mean(self.x)

    @property
    def variance(self):
        return mean([(value - self.mean) ** 2 for value in self.x])

    @property
    def share(self):
        return self.variance * self.r**2

    def x_hat(self, m=None, r=None):
        m, r = self.mean if m is None else m, self.r if r is None else r
        return [(value - m) * r for value in self.x]

    def c2(self, x_hat):
        return mean([one * other for one, other in zip(self.g, x_hat, strict=True)])

    def dx(self, x_hat, r):
        c1, c2 = mean(self.g), self.c2(x_hat)
        return [r * (g - c1 - one * c2) for g, one in zip(self.g, x_hat, strict=True)]


def rows(count=3, hidden=8, seed=20):
    """Rows of small rationals; r is near 1/deviation, so that eps is positive and small."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        x, g = ([Fraction(int(n), 16) for n in rng.integers(-40, 60, hidden)] for _ in range(2))
        deviation = float(np.std([float(value) for value in x]))
        yield Row(x, g, Fraction(0.97 / deviation).limit_denominator(1000))

"""Error bounds of mean and variance for each algorithm of `passes`: the input of the bounds of results.

u is the unit roundoff of the accumulator, s the depth of its sums over D, mu = |mean|/std, kappa =
sqrt(1 + mu^2), first = |x_1 - mean|/std. In standard deviations the mean is off by at most

    summed               t = (s + 1)*u*kappa, its division included
    compensated sum      (2*u + 3*(D*u)^2)*kappa
    corrected            u*mu + (s + 2)*u*hypot(1, t): its last rounding, and the correction's own error
    shifted              u*mu + (s + 2)*u*hypot(1, first)
    Welford              u*((D + 1)/2*(mu + 1) + 9): update k rounds the mean; k/D of that error remains
    Chan                 s*u*(kappa + 3)
    float64_mean         u*mu, from the rounding of the float64 mean
    re-centred           (s + 2)*u*hypot(1, t)

D is taken to be exact in the accumulator. Sums and their errors: Higham 2002, chapters 1 and 4.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from layernorm_backward.double_double import Floats
from layernorm_backward.dtypes import unit_roundoff
from layernorm_backward.theory import variance_bounds
from layernorm_backward.theory.magnitudes import MAGNITUDES, Rows, sums

U64 = unit_roundoff(np.float64)
SHIFT = 1.01  # standard deviations, 1 plus rounding: with a shift further off, a row is swept again


class Statistics(NamedTuple):
    """Bounds (rows,) of the drift, the error of the mean in standard deviations, and of the relative error of
    the variance.

    roundings: their number per element of z*rstd, starting from x. stray: the offset of z, in standard
    deviations, that these roundings scale with in addition to the drift. magnitude: the largest sum of
    magnitudes. stray_forward: `stray` of the forward pass if its z differs; None if both passes form one z.
    """

    drift: Floats
    variance: Floats
    roundings: int
    stray: Floats
    magnitude: Floats
    stray_forward: Floats | None = None


def summed(rows: Rows, depth: int, u: float) -> Floats:
    """The drift of a mean from a sum of given depth and a division."""
    return (depth + 1) * u * rows.kappa


def about_first(rows: Rows, depth: int, u: float) -> Floats:
    """The drift of x_1 + mean(x - x_1)."""
    return u * rows.mu + (depth + 2) * u * np.hypot(1.0, rows.first)


def two_pass(rows: Rows, depth: int, u: float) -> Statistics:
    """The mean by a sum, the variance about it."""
    return _about(summed(rows, depth, u), rows, depth, u)


def recentred(rows: Rows, depth: int, u: float) -> Statistics:
    """z = x - m; z -= mean(z); its squares."""
    t = summed(rows, depth, u)
    drift = (depth + 2) * u * np.hypot(1.0, t)
    variance = (depth + 6 + 2 * t) * u * (1 + drift**2) + drift**2
    return Statistics(drift, variance, 3, t, sums(rows, t))


def recentred_sums(rows: Rows, depth: int, u: float, t: Floats | None = None) -> Statistics:
    """z = x - m, where m is off by t (by default that of a sum); mean(z^2) - mean(z)^2."""
    t = summed(rows, depth, u) if t is None else t
    drift = (depth + 2) * u * np.hypot(1.0, t)
    variance = (depth + 6) * u * (1 + t**2) + 2 * t * drift + drift**2
    return Statistics(drift, variance, 3, t, sums(rows, t))


def algebraic(rows: Rows, depth: int, u: float) -> Statistics:
    """`recentred_sums` with m at most SHIFT off; the backward pass starts from the saved, rounded mean.

    z*rstd - delta*rstd rounds the offset twice.
    """
    forward = recentred_sums(rows, depth, u, np.full_like(rows.kappa, SHIFT))
    saved = u * rows.mu + forward.drift
    return forward._replace(stray=2 * (depth + 3) * saved, stray_forward=2 * forward.stray)


def float64_mean(rows: Rows, depth: int, u: float) -> Statistics:
    """The mean summed in float64, then rounded; two-pass variance."""
    return _about(u * rows.mu + summed(rows, depth, U64), rows, depth, u)


def float64_statistics(rows: Rows, depth: int, u: float) -> Statistics:
    """All in float64, whatever u is."""
    return two_pass(rows, depth, U64)._replace(magnitude=np.zeros_like(rows.kappa))


def by_variance(name: str, rows: Rows, depth: int, u: float) -> Statistics:
    """The mean and variance of the named variance algorithm; sums are binary trees of that depth."""
    kappa, first, _, hidden = rows
    variance = variance_bounds.BOUNDS[name](kappa, first, hidden, u)
    drift = _DRIFTS.get(name, summed)(rows, depth, u)
    return Statistics(drift, variance, 2, np.zeros_like(kappa), MAGNITUDES.get(name, sums)(rows, drift))


def _about(drift: Floats, rows: Rows, depth: int, u: float) -> Statistics:
    variance = (depth + 4) * u * (1 + drift**2) + drift**2
    return Statistics(drift, variance, 2, np.zeros_like(drift), sums(rows, drift))


def _compensated(rows: Rows, depth: int, u: float) -> Floats:
    return (2 * u + 3 * (rows.hidden * u) ** 2) * rows.kappa


def _corrected(rows: Rows, depth: int, u: float) -> Floats:
    return u * rows.mu + (depth + 2) * u * np.hypot(1.0, summed(rows, depth, u))


def _welford(rows: Rows, depth: int, u: float) -> Floats:
    return u * ((rows.hidden + 1) / 2 * (rows.mu + 1) + 9)


def _chan(rows: Rows, depth: int, u: float) -> Floats:
    return depth * u * (rows.kappa + 3)


_DRIFTS = {
    "naive_compensated": _compensated,
    "two_pass_corrected": _corrected,
    "welford": _welford,
    "chan": _chan,
    "shifted": about_first,
}
# algorithm of `passes` -> bound(rows, depth, u)
STATISTICS: dict[str, Callable[[Rows, int, float], Statistics]] = {
    name: partial(by_variance, name) for name in variance_bounds.BOUNDS
} | {named.__name__: named for named in (recentred, recentred_sums, float64_mean, float64_statistics)}

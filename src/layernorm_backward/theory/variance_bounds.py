"""First-order bounds of the relative error of each variance algorithm, derived for its order of additions.

u is the unit roundoff of the accumulator, D the length of a row, s = ceil(log2 D) the depth of its sums,
kappa = sqrt(1 + mean^2/var), mu = |mean|/std = sqrt(kappa^2 - 1). A sum of depth s adds s roundings to
each term, hence at most (s + 1)*u*kappa standard deviations to the mean (its division included). Terms of
order u^2 are kept where a large kappa makes them dominant. The leading terms are those of Chan, Golub &
LeVeque (1983): naive s*kappa^2*u, two-pass s*u + (s*kappa*u)^2, corrected two-pass s*u + s^3*kappa^2*u^3,
Welford D*kappa*u, pairwise s*kappa*u. The bounds hold where D*u is well below 1 and nothing overflows.
"""

from collections.abc import Callable

import numpy as np

from layernorm_backward.double_double import Floats
from layernorm_backward.sums import tree_depth


def one_pass(kappa: Floats, depth: int, u: float, subtraction: int = 0) -> Floats:
    """S2/n - (S/n)^2 with sums of a given depth, of elements that carry `subtraction` roundings (0 or 1).

    S2/n: depth + 2 roundings of kappa^2*var, and 2 more per subtraction. (S/n)^2: twice depth + 1 roundings
    of mu*kappa, plus its own square and the other forms' second division. Difference: 1.
    """
    mu = np.sqrt((kappa - 1) * (kappa + 1))
    squares = (depth + 2 + 2 * subtraction) * kappa**2
    mean = depth + 1 + subtraction
    return u * (squares + 2 * mean * mu * kappa + 3 * mu**2 + 2) + (mean * u * kappa) ** 2


def naive(kappa: Floats, first: Floats, hidden: int, u: float) -> Floats:
    """Of order s*kappa^2*u; for all three forms."""
    return one_pass(kappa, tree_depth(hidden), u)


def naive_compensated(kappa: Floats, first: Floats, hidden: int, u: float) -> Floats:
    """Of order kappa^2*u: a compensated sum has the error of depth 1, and (D*u)^2 of its sum |terms|."""
    return one_pass(kappa, 1, u) + 3 * (hidden * u * kappa) ** 2


def two_pass(kappa: Floats, first: Floats, hidden: int, u: float) -> Floats:
    """(s + 4)*u + ((s + 1)*kappa*u)^2: the mean's error enters squared."""
    depth = tree_depth(hidden)
    drift = ((depth + 1) * kappa * u) ** 2
    return (depth + 4) * u * (1 + drift) + drift


def two_pass_corrected(kappa: Floats, first: Floats, hidden: int, u: float) -> Floats:
    """`one_pass` for the row less its rounded mean, whose own kappa is sqrt(1 + ((s + 1)*kappa*u)^2)."""
    depth = tree_depth(hidden)
    return one_pass(np.hypot(1.0, (depth + 1) * kappa * u), depth, u, subtraction=1)


def welford(kappa: Floats, first: Floats, hidden: int, u: float) -> Floats:
    """(D*(mu + 2) + 6)*u + (D*(mu + 1)*u)^2: each of D updates rounds the mean and the sum of squares."""
    mu = np.sqrt((kappa - 1) * (kappa + 1))
    return (hidden * (mu + 2) + 6) * u + (hidden * (mu + 1) * u) ** 2


def chan(kappa: Floats, first: Floats, hidden: int, u: float) -> Floats:
    """(2*(s - 1)*(kappa + 3) + 2*s + 5)*u + (s*(kappa + 3)*u)^2: each of s levels of merges rounds means.

    The rounding of a mean at the last level enters no further difference of means. M itself takes 2*s + 5.
    """
    s = tree_depth(hidden)
    return (2 * max(s - 1, 0) * (kappa + 3) + 2 * s + 5) * u + (s * (kappa + 3) * u) ** 2


def shifted(kappa: Floats, first: Floats, hidden: int, u: float) -> Floats:
    """`one_pass` for x - x_1, whose own kappa is sqrt(1 + first^2), first = |x_1 - mean|/std."""
    return one_pass(np.hypot(1.0, first), tree_depth(hidden), u, subtraction=1)


# algorithm -> bound(kappa, first, hidden, u); kappa and first = |x_1 - mean|/std of each row
BOUNDS: dict[str, Callable[[Floats, Floats, int, float], Floats]] = {
    "naive": naive,
    "naive_s2": naive,
    "naive_nn": naive,
    "naive_compensated": naive_compensated,
    "two_pass": two_pass,
    "two_pass_corrected": two_pass_corrected,
    "welford": welford,
    "chan": chan,
    "shifted": shifted,
}

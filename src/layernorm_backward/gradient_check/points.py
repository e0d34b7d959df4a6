"""Where a gradient is checked: x, gamma, beta, dy."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward import inputs
from layernorm_backward.dtypes import dtype_of, round_to, unit_roundoff

OFFSET = 1e3  # mean/std of the rows that are far from zero


class Point(NamedTuple):
    """x, dy (..., D) and gamma, beta (D,), all of one storage dtype."""

    x: NDArray
    gamma: NDArray
    beta: NDArray
    dy: NDArray


def adequate(shape: tuple[int, ...], eps: float, seed: int, dtype: str = "float64") -> Point:
    """Data on which the known ways to be wrong show.

    Rows in turn: N(0,1); variance eps, which tells one use of eps from another; mean far from zero, which
    shows statistics of low precision; N(0,1). gamma is random, since at gamma = 1 a missing or misplaced
    gamma cannot be seen; dy is N(1,1), since a zero mean(g) hides its own term. 16-bit rows have a smaller
    mean, u**-1/2 standard deviations, so that their spread survives the rounding.
    """
    *leading, hidden = shape
    rng, kind = inputs.generator(seed, *shape), dtype_of(dtype)
    far = min(OFFSET, unit_roundoff(kind) ** -0.5)
    x = rng.standard_normal((math.prod(leading), hidden))
    x[1::4] *= math.sqrt(eps)
    x[2::4] += far
    x = round_to(x.reshape(shape), kind)
    dy = inputs.upstream(rng, "shifted", x)
    gamma = inputs.gamma(rng, "random", hidden, kind)
    return Point(x, gamma, inputs.beta(rng, hidden, kind), dy)


def normal(shape: tuple[int, ...], seed: int, dtype: str = "float64") -> Point:
    """x, gamma, beta and dy all from N(0,1), as in the published checks."""
    rng = inputs.generator(seed, *shape)
    parts = {"x": shape, "gamma": shape[-1:], "beta": shape[-1:], "dy": shape}
    return Point(
        **{name: round_to(rng.standard_normal(size), dtype_of(dtype)) for name, size in parts.items()}
    )


def frozen(point: Point) -> Point:
    """Read-only copies: whoever writes to them fails at once, and the caller's arrays are out of reach."""
    copies = Point(*(np.array(part) for part in point))
    for copy in copies:
        copy.flags.writeable = False
    return copies

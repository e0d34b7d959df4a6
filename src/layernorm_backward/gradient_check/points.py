"""Points at which gradients are checked: x, gamma, beta, dy."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward import inputs
from layernorm_backward.dtypes import dtype_of, round_to


class Point(NamedTuple):
    """x, dy (..., D) and gamma, beta (D,), all of one storage dtype."""

    x: NDArray
    gamma: NDArray
    beta: NDArray
    dy: NDArray


def normal(shape: tuple[int, ...], seed: int, dtype: str = "float64") -> Point:
    """x, gamma, beta and dy all from N(0,1), as in the published checks."""
    rng = inputs.generator(seed, *shape)
    parts = {"x": shape, "gamma": shape[-1:], "beta": shape[-1:], "dy": shape}
    return Point(
        **{name: round_to(rng.standard_normal(size), dtype_of(dtype)) for name, size in parts.items()}
    )


def frozen(point: Point) -> Point:
    """Read-only copies: a write to them raises, and cannot reach the caller's arrays."""
    copies = Point(*(np.array(part) for part in point))
    for copy in copies:
        copy.flags.writeable = False
    return copies

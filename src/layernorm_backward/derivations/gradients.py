"""What a derivation returns."""

from typing import NamedTuple

from numpy.typing import NDArray


class Gradients(NamedTuple):
    """dx (..., D), dgamma (D,), dbeta (D,)."""

    dx: NDArray
    dgamma: NDArray
    dbeta: NDArray

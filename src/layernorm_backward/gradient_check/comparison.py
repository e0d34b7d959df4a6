"""Analytic and numerical gradients compared per unit: a row of dx, all of dgamma, or a random direction."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.portable import norm

MEASURES = ("rel_error", "max_element_error", "max_norm_error", "max_abs_error", "tolerance")


class Comparison(NamedTuple):
    """analytic, numeric (..., n) float64, units along the last axis; tolerance (...,)."""

    quantity: str
    scope: str
    analytic: NDArray[np.float64]
    numeric: NDArray[np.float64]
    tolerance: NDArray[np.float64]
    evaluations: int

    @property
    def difference(self) -> NDArray[np.float64]:
        return np.abs(self.analytic - self.numeric)

    @property
    def errors(self) -> NDArray[np.float64]:
        """The 2-norm of every unit's error, shape (...,)."""
        return np.linalg.norm(self.difference, axis=-1)

    @property
    def failed(self) -> NDArray[np.bool_]:
        """Whether each unit exceeds its tolerance, shape (...,); NaN counts as failed."""
        return ~(self.errors <= self.tolerance)

    def worst(self) -> tuple[int, ...]:
        """The index of the element with the largest error, in a failed unit if there is one."""
        difference = np.where(np.isnan(self.difference), np.inf, self.difference)
        if self.failed.any():
            difference = np.where(self.failed[..., None], difference, -1.0)
        return tuple(int(i) for i in np.unravel_index(np.argmax(difference), difference.shape))

    def measures(self) -> dict[str, float]:
        """MEASURES: norm-wise, by element, max|a - n| / max(|a| + |n|), absolute; the norm-wise tolerance."""
        sizes = np.maximum(np.abs(self.analytic), np.abs(self.numeric))
        largest = np.max(np.abs(self.analytic) + np.abs(self.numeric), initial=0.0)
        most, size = np.max(self.difference, initial=0.0), norm(self.numeric)
        found = (
            _over(norm(self.difference), size),
            np.max(_over(self.difference, sizes), initial=0.0),
            _over(most, largest),
            most,
            _over(norm(self.tolerance), size),
        )
        return {name: float(value) for name, value in zip(MEASURES, found, strict=True)}


def _over(error: NDArray | np.float64, size: NDArray | np.float64) -> NDArray:
    """error/size; 0 where the error is 0, else infinity where the size is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(error) == 0, 0.0, np.divide(error, size))

"""Error measures: computed results against exact ones (double-double), row by row.

Rows lie along the last axis; dgamma and dbeta are one row each. Special cases of a relative error:
  the exact row is 0              0 if the computed row is 0 too, else infinity
  the computed row is not finite  infinity; NaN if the exact row is not finite either
"""

import numpy as np
from numpy.typing import DTypeLike, NDArray

from layernorm_backward.double_double import DoubleDouble, Floats
from layernorm_backward.dtypes import unit_roundoff


def rel_error(computed: NDArray, exact: DoubleDouble) -> Floats:
    """The 2-norm of each row's error over the 2-norm of the exact row, shape (...,)."""
    return relative(error(computed, exact), norm(exact.hi))


def relative(error: Floats, size: Floats) -> Floats:
    """The 2-norm of each row of errors (..., D) over the norm of the exact row (...,)."""
    return _ratio(norm(error), size)


def error_u(computed: NDArray, exact: DoubleDouble, dtype: DTypeLike | None = None) -> Floats:
    """`rel_error` in units of u of `dtype`, by default the dtype of the result."""
    return rel_error(computed, exact) / unit_roundoff(computed.dtype if dtype is None else dtype)


def over_bounds(errors: Floats, bounds: Floats) -> Floats:
    """The ratio of error to bound of each row with a finite bound, (n,); 0 where both are 0."""
    errors, bounds = np.broadcast_arrays(*np.atleast_1d(errors, bounds))
    bounded = np.isfinite(bounds)
    return _ratio(errors[bounded], bounds[bounded])


def most_over_bounds(errors: Floats, bounds: Floats) -> float:
    """The largest of `over_bounds`; NaN where no row has a finite bound."""
    found = over_bounds(errors, bounds)
    return float(np.max(found)) if found.size else float("nan")


def max_abs_error(computed: NDArray, exact: DoubleDouble) -> float:
    """The largest absolute error of an element; 0.0 for no elements."""
    return float(np.max(np.abs(error(computed, exact)), initial=0.0))


def error(computed: NDArray, exact: DoubleDouble) -> Floats:
    """computed - exact per element; not finite where either is not."""
    with np.errstate(invalid="ignore"):
        return (np.asarray(computed).astype(np.float64) - exact.hi) - exact.lo


def norm(rows: Floats) -> Floats:
    """2-norms along the last axis, scaled so that squares neither overflow nor underflow."""
    largest = np.max(np.abs(rows), axis=-1, initial=0.0)
    usable = (largest > 0) & np.isfinite(largest)
    scale = np.where(usable, largest, 1.0)
    return scale * np.linalg.norm(rows / scale[..., None], axis=-1)


def _ratio(error: Floats, size: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = error / size
    ratio = np.where((size == 0) & (error == 0), 0.0, ratio)
    return np.where(np.isfinite(size) & ~np.isfinite(error), np.inf, ratio)

"""How far the rows of the backward pass can be off centre, in standard deviations, by what was saved.

With kappa of the row, s the depth of its sums, u their roundoff and v that of the saved mean:

    forward pass      d, the drift of its algorithm by `mean_bounds`
    saved mean        d + v kappa; x_1: its distance from the mean; x_hat: d + u of its dtype
    re-centred        (s + 2) u hypot(1, the offset of what was saved)

plus 3u hypot(1, d) for the rounding of the rows themselves. To first order, and for an accurate rstd, which
the naive variance does not give.
"""

import numpy as np
from numpy.typing import NDArray

from layernorm_backward import oracle
from layernorm_backward.double_double import Floats
from layernorm_backward.dtypes import dtype_of, sum_dtype, unit_roundoff
from layernorm_backward.sums import tree_depth
from layernorm_backward.theory.magnitudes import rows_of
from layernorm_backward.theory.mean_bounds import STATISTICS


def eta_bound(saved: str, forward: str, backward: str, x: NDArray, moments: oracle.Moments) -> Floats:
    """Bound (N,) of |mean(x_hat)| for rows x (N, D), none constant; names as in `saving` and `passes`."""
    s, u, row = tree_depth(x.shape[-1]), unit_roundoff(sum_dtype(x.dtype)), rows_of(moments)
    drift = STATISTICS[forward](row, s, u).drift
    if saved == "first_element":
        drift = row.first
    elif saved == "x_hat":
        drift = drift + unit_roundoff(x.dtype)
    elif saved != "mean_and_shift":
        drift = drift + unit_roundoff(dtype_of(saved.rpartition("_")[2])) * row.kappa
    if backward != "as_saved":
        drift = (s + 2) * u * np.hypot(1.0, drift)
    return drift + 3 * u * np.hypot(1.0, drift)

"""The forward arithmetic of numba_fused on a line of each row of a group, as in `numba_backward_lines`.

`row` is what `numba_forward` has found for the results of the group's rows: shift, rstd and offset.
"""

from numba import njit

from layernorm_backward.kernels.lane_memory import load
from layernorm_backward.kernels.lanes import add_folded_products, fma, fold, keep
from layernorm_backward.kernels.numba_walk import INLINE, shared


@njit(**INLINE)
def moment(x, place, count, shift, sums):
    """Add a line of a group to its sums of z and z**2."""
    start, stride, _ = place
    z = keep(load(x, start, stride, count, shift) - shift, count)
    return sums[0] + fold(z), add_folded_products(sums[1], z, z)


@njit(**INLINE)
def normalized(x, gamma, beta, place, lag, count, row):
    """A line of a group's y."""
    start, stride, j = place
    shift, rstd, offset = row
    x_hat = fma(load(x, start, stride, count, shift) - shift, rstd, offset)
    return fma(shared(gamma, j, lag, shift), x_hat, shared(beta, j, lag, shift))

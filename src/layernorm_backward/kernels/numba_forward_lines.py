"""The forward arithmetic of numba_fused on a line of each row of a group, as in `numba_backward_lines`.

z is x - shift; `row` is (shift, rstd, offset) of `numba_forward`, in all lanes of each of the group's rows.
"""

from numba import njit

from layernorm_backward.kernels.lane_memory import load, put
from layernorm_backward.kernels.lanes import add_folded_products, fma, fold, mask_tail
from layernorm_backward.kernels.numba_walk import INLINE, vector_lines


@njit(**INLINE)
def moment(x, widened, place, count, shift, sums):
    """Add a line of a group to its sums of z and z**2."""
    start, stride, j = place
    z = mask_tail(load(x, start, stride, count, shift) - shift, count)
    if widened is not None:
        put(z, widened, j)
    return sums[0] + fold(z), add_folded_products(sums[1], z, z)


@njit(**INLINE)
def shifted(x, place, count, row):
    """A line of a group's z."""
    start, stride, _ = place
    return load(x, start, stride, count, row[0]) - row[0]


@njit(**INLINE)
def normalized(z, gamma, beta, j, lag, row):
    """A line of a group's y, the first row's from column j on."""
    shift, rstd, offset = row
    return fma(vector_lines(gamma, j, lag, shift), fma(z, rstd, offset), vector_lines(beta, j, lag, shift))

"""The backward arithmetic of numba_fused on one line of each row of a group.

A place is (start, stride, j): the element at which the first row's line begins, the distance from there to
the next row's line, and the first row's column. Each row is `lag` columns behind the one before it; None: all
are at the same column. z is x - mean; `row` holds the coefficients of `numba_backward`, in all lanes of each
row.
"""

from numba import njit

from layernorm_backward.kernels.lane_memory import line, load, put
from layernorm_backward.kernels.lanes import (
    add_folded_products,
    add_products,
    add_rows,
    fma,
    fold,
    mask_tail,
    rows_of,
)
from layernorm_backward.kernels.numba_ring import write
from layernorm_backward.kernels.numba_walk import INLINE, narrow, vector_lines


@njit(**INLINE)
def project(x, dy, gamma, widened, place, lag, count, mean, recentre, sums):
    """Add a line of a group to its sums of z, g and g*z."""
    start, stride, j = place
    z, d = mask_tail(load(x, start, stride, count, mean) - mean, count), load(dy, start, stride, count, mean)
    if widened is not None:
        put(z, widened[0], j)
        put(d, widened[1], j)
    g = d * vector_lines(gamma, j, lag, mean)
    sum_z = sums[0] if recentre is None else sums[0] + fold(z)
    return sum_z, sums[1] + fold(g), add_folded_products(sums[2], g, z)


@njit(**INLINE)
def centred(dy, x, place, count, row):
    """A line of a group's dy and x_hat."""
    start, stride, _ = place
    mean = row[0]
    d = load(dy, start, stride, count, mean)
    return d, normalized(load(x, start, stride, count, mean) - mean, row)


@njit(**INLINE)
def normalized(z, row):
    """x_hat of z, about the re-centred mean."""
    _, rstd, offset, _, _ = row
    return fma(z, rstd, offset)


@njit(**INLINE)
def differentiate(d, x_hat, gamma, dx, part, place, count, row, streamed, ring):
    """Write a line of a group's dx, and add the line to dgamma and dbeta."""
    start, stride, j = place
    write(_result(d, x_hat, gamma, j, None, row), dx, start, stride, count, streamed, ring)
    put(add_products(line(part[0], j, d), d, mask_tail(x_hat, count)), part[0], j)
    put(add_rows(line(part[1], j, d), d), part[1], j)


@njit(**INLINE)
def differentiate_pair(d, x_hat, gamma, dx, part, place, lag, row, streamed, carried):
    """`differentiate` for two rows, the second a line, `lag` columns, behind the first.

    carried: the lines of dgamma and of dbeta at the second row's column, to which the first row has been
    added. The second is added and they are written; those for the next iteration are returned.
    """
    start, stride, j = place
    write(_result(d, x_hat, gamma, j, lag, row), dx, start, stride, None, streamed, None)
    d0, d1, _, _ = rows_of(d)
    z0, z1, _, _ = rows_of(x_hat)
    put(add_products(carried[0], d1, z1), part[0], j - lag)
    put(add_rows(carried[1], d1), part[1], j - lag)
    return add_products(line(part[0], j, d0), d0, z0), add_rows(line(part[1], j, d0), d0)


@njit(**INLINE)
def _result(d, x_hat, gamma, j, lag, row):
    """A line of a group's dx.

    gamma*dy is rounded as in the sum of g, which it is to cancel. The product of 16-bit numbers is exact in
    the dtype of the sums, so that fma gives the same bits with one operation less; with a float32 gamma
    beside 16-bit x, fma leaves the product unrounded.
    """
    mean, rstd, _, slope, shift = row
    scale = vector_lines(gamma, j, lag, mean)
    held = fma(scale, d, shift) if narrow(d) else scale * d + shift
    return rstd * fma(x_hat, slope, held)

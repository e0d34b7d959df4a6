"""The compiled half of numba_fused: rows, chunks of rows, and all chunks at once on all cores.

The mean is re-centred, at no extra sweep, by equation (14): with z = x - mean and delta = mean(z),

    var = sum(z**2)/D - delta**2          sum(g*(z - delta)) = sum(g*z) - delta*sum(g)

Only sums may be reordered by the compiler (`SUMS`): with reordering allowed elsewhere, (x - mean) - delta
could become x - (mean + delta), which is the rounding that re-centring exists to avoid. No flag lets the
compiler assume that there are no NaN or infinities. All arrays are C-contiguous and of one dtype.
"""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from numba import from_dtype, njit, prange, types

ROWS = 64  # rows whose dgamma, dbeta are summed one after the other, before their sum joins the chunk's
BLOCK = 2048  # elements of a row that are summed in vector lanes, before their sum joins the row's
SUMS = {"fastmath": {"reassoc", "contract", "nsz", "arcp"}, "error_model": "numpy"}
ELEMENTS = {"fastmath": {"contract"}, "error_model": "numpy"}
ROUNDED = {"fastmath": False, "error_model": "numpy"}  # each operation is rounded by itself


@njit(**ROUNDED)
def _minus(a, b):
    return a - b


@njit(**ROUNDED)
def _times(a, b):
    """The same number wherever it is used: a g fused into g - c1 would leave dx not quite 0 for D = 1."""
    return a * b


@njit(**SUMS)
def _mean(row):
    """mean of a row (D,), summed relative to its first element: exact for constant rows."""
    total = row.dtype.type(0)
    for start in range(0, row.size, BLOCK):
        block, part = row[start : start + BLOCK], row.dtype.type(0)
        for j in range(block.size):
            part += _minus(block[j], row[0])
        total += part
    return row[0] + total / row.dtype.type(row.size)


@njit(**SUMS)
def _moments(row, mean):
    """sum(z) and sum(z**2) of z = row - mean."""
    first, second = row.dtype.type(0), row.dtype.type(0)
    for start in range(0, row.size, BLOCK):
        block, one, two = row[start : start + BLOCK], row.dtype.type(0), row.dtype.type(0)
        for j in range(block.size):
            z = _minus(block[j], mean)
            one += z
            two += z * z
        first += one
        second += two
    return first, second


@njit(**SUMS)
def _projections(row, dy, gamma, mean):
    """sum(z), sum(g) and sum(g*z) of z = row - mean, g = gamma * dy."""
    sum_z, sum_g, sum_gz = row.dtype.type(0), row.dtype.type(0), row.dtype.type(0)
    for start in range(0, row.size, BLOCK):
        block, dys, gammas = (
            row[start : start + BLOCK],
            dy[start : start + BLOCK],
            gamma[start : start + BLOCK],
        )
        z_part, g_part, gz_part = row.dtype.type(0), row.dtype.type(0), row.dtype.type(0)
        for j in range(block.size):
            z = _minus(block[j], mean)
            g = _times(gammas[j], dys[j])
            z_part += z
            g_part += g
            gz_part += g * z
        sum_z += z_part
        sum_g += g_part
        sum_gz += gz_part
    return sum_z, sum_g, sum_gz


@njit(**ELEMENTS)
def _forward_row(row, gamma, beta, eps, y):
    size = row.dtype.type(row.size)
    mean = _mean(row)
    first, second = _moments(row, mean)
    delta = first / size
    var = second / size - delta * delta
    if var < 0:
        var = row.dtype.type(0)
    rstd = row.dtype.type(1) / math.sqrt(var + eps)
    shift = delta * rstd
    for j in range(row.size):
        y[j] = gamma[j] * ((row[j] - mean) * rstd - shift) + beta[j]
    return mean, rstd


@njit(**ELEMENTS)
def _backward_row(row, dy, gamma, mean, rstd, dx, dgamma, dbeta):
    size = row.dtype.type(row.size)
    sum_z, sum_g, sum_gz = _projections(row, dy, gamma, mean)
    delta = sum_z / size
    c1 = sum_g / size
    c2 = (sum_gz - delta * sum_g) * rstd / size
    shift = delta * rstd
    for j in range(row.size):
        x_hat = (row[j] - mean) * rstd - shift
        dx[j] = rstd * (_times(gamma[j], dy[j]) - c1 - x_hat * c2)
    for j in range(row.size):
        x_hat = (row[j] - mean) * rstd - shift
        dgamma[j] += dy[j] * x_hat
        dbeta[j] += dy[j]


@njit(**ELEMENTS)
def _forward_chunk(x, gamma, beta, eps, y, mean, rstd):
    for i in range(x.shape[0]):
        mean[i], rstd[i] = _forward_row(x[i], gamma, beta, eps, y[i])


@njit(**ELEMENTS)
def _backward_chunk(dy, x, mean, rstd, gamma, dx, dgamma, dbeta):
    part_dgamma, part_dbeta = np.empty_like(dgamma), np.empty_like(dbeta)
    for start in range(0, x.shape[0], ROWS):
        part_dgamma[:] = 0
        part_dbeta[:] = 0
        for i in range(start, min(start + ROWS, x.shape[0])):
            _backward_row(x[i], dy[i], gamma, mean[i], rstd[i], dx[i], part_dgamma, part_dbeta)
        for j in range(dgamma.size):
            dgamma[j] += part_dgamma[j]
            dbeta[j] += part_dbeta[j]


def _forward_rows(x, gamma, beta, eps, y, mean, rstd, chunks):
    for chunk in prange(chunks):
        i, end = chunk * x.shape[0] // chunks, (chunk + 1) * x.shape[0] // chunks
        _forward_chunk(x[i:end], gamma, beta, eps, y[i:end], mean[i:end], rstd[i:end])


def _backward_rows(dy, x, mean, rstd, gamma, dx, sums):
    chunks = sums.shape[0]
    for chunk in prange(chunks):
        i, end = chunk * x.shape[0] // chunks, (chunk + 1) * x.shape[0] // chunks
        total = sums[chunk]
        _backward_chunk(dy[i:end], x[i:end], mean[i:end], rstd[i:end], gamma, dx[i:end], total[0], total[1])


@cache
def compiled(dtype: np.dtype) -> tuple[Callable[..., None], Callable[..., None]]:
    """Both passes for one dtype:

    forward(x, gamma, beta, eps, y, mean, rstd, chunks)      x, y (N, D); gamma, beta (D,); mean, rstd (N,)
    backward(dy, x, mean, rstd, gamma, dx, sums)             sums (chunks, 2, D): dgamma, dbeta of each chunk

    The first call for a dtype compiles (some seconds); later processes load it from Numba's cache, which
    lies beside this file, or in the user's cache folder where that cannot be written.
    """
    number = from_dtype(dtype)
    read = {ndim: types.Array(number, ndim, "C", readonly=True) for ndim in (1, 2)}
    write = {ndim: types.Array(number, ndim, "C") for ndim in (1, 2, 3)}
    forward_types = (read[2], read[1], read[1], number, write[2], write[1], write[1], types.intp)
    backward_types = (read[2], read[2], read[1], read[1], read[1], write[2], write[3])
    compiled = njit(types.void(*forward_types), parallel=True, cache=True, **ELEMENTS)(_forward_rows)
    return compiled, njit(types.void(*backward_types), parallel=True, cache=True, **ELEMENTS)(_backward_rows)

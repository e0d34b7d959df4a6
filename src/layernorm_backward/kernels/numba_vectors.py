"""gamma, beta, dgamma and dbeta beside 16-bit x: conversions from storage to what a pass takes, and back.

A pass takes vectors in the dtype of the sums, in whole lines, and beside bfloat16 in the order of
`lanes.by_parity`. In NumPy the conversion would take as long as the pass takes for some ten rows, and so
would the check for overlap.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from numba import float32, int16, njit, types, uint16

from layernorm_backward.dtypes import dtype_of
from layernorm_backward.kernels.lane_memory import (
    elements,
    line,
    load,
    parity_lanes,
    put,
    store,
)
from layernorm_backward.kernels.lanes import LINE, by_parity, width, zeros
from layernorm_backward.kernels.numba_disjoint import disjoint, extent
from layernorm_backward.kernels.numba_walk import INLINE, PLAIN
from layernorm_backward.kernels.sources import checksum

_STORED = {"float32": float32, "float16": int16, "bfloat16": uint16}
_NARROW = "float16", "bfloat16"
_LANES = LINE // 2  # of a line of 16-bit x


class Vectors(NamedTuple):
    """Functions compiled for a dtype of x and one of gamma; arrays are flat, as `lane_memory` stores them.

    before_forward(x, gamma, beta, y, wide_gamma, wide_beta) and before_backward(dy, x, mean, rstd, gamma, dx,
    dgamma, dbeta, wide_gamma) fill the wide_ arrays and return True, or False where a result overlaps another
    array. after_backward(wide_dgamma, wide_dbeta, dgamma, dbeta) rounds to nearest even. The wide_ arrays
    have whole lines.
    """

    before_forward: Callable[..., bool]
    before_backward: Callable[..., bool]
    after_backward: Callable[..., None]


@cache
def between(dtype: str, gamma_dtype: str) -> Vectors | None:
    """The conversions for a dtype of x and one of gamma; None where a pass takes vectors as stored."""
    ordered = gamma_dtype == "float32" and parity_lanes(dtype_of(dtype)) > 0
    if gamma_dtype not in _NARROW and not ordered:
        return None
    given, stored = (_array(_STORED[name], readonly=True) for name in (dtype, gamma_dtype))
    x, vector, wide = _array(_STORED[dtype]), _array(_STORED[gamma_dtype]), _array(float32)
    sums, how = _array(float32, readonly=True), (checksum(), ordered)
    return Vectors(
        _compile(types.boolean(given, stored, stored, x, wide, wide), _before_forward(*how)),
        _compile(
            types.boolean(given, given, sums, sums, stored, x, vector, vector, wide), _before_backward(*how)
        ),
        _compile(types.void(sums, sums, vector, vector), _after_backward(*how)),
    )


def _before_forward(sources, ordered):
    def before_forward(x, gamma, beta, y, wide_gamma, wide_beta):
        _ = sources
        if not disjoint((extent(y),), (extent(x), extent(gamma), extent(beta))):
            return False
        _widen(gamma, wide_gamma, ordered)
        _widen(beta, wide_beta, ordered)
        return True

    return before_forward


def _before_backward(sources, ordered):
    def before_backward(dy, x, mean, rstd, gamma, dx, dgamma, dbeta, wide_gamma):
        _ = sources
        taken = extent(dy), extent(x), extent(mean), extent(rstd), extent(gamma)
        if not disjoint((extent(dx), extent(dgamma), extent(dbeta)), taken):
            return False
        _widen(gamma, wide_gamma, ordered)
        return True

    return before_backward


def _after_backward(sources, ordered):
    def after_backward(wide_dgamma, wide_dbeta, dgamma, dbeta):
        _ = sources
        _narrow(wide_dgamma, dgamma, ordered)
        _narrow(wide_dbeta, dbeta, ordered)

    return after_backward


@njit(**INLINE)
def _widen(vector, wide, ordered):
    """Fill `wide` from `vector`: only reorder it if `ordered`, as float32 needs no more, else widen lines."""
    like, size = by_parity(zeros(vector, 1)), vector.size
    given, found, lanes = elements(vector), elements(wide), width(like)
    if ordered:
        wide[size - size % _LANES :] = 0
        for j in range(size):
            wide[_place(j)] = vector[j]
    else:
        whole = size - size % lanes
        for j in range(0, whole, lanes):
            put(load(given, j, 0, None, like), found, j)
        if whole < size:
            put(load(given, whole, 0, size - whole, like), found, whole)


@njit(**INLINE)
def _narrow(wide, vector, ordered):
    """The inverse of `_widen`."""
    like, size = by_parity(zeros(vector, 1)), vector.size
    given, found, lanes = elements(wide), elements(vector), width(like)
    if ordered:
        for j in range(size):
            vector[j] = wide[_place(j)]
    else:
        whole = size - size % lanes
        for j in range(0, whole, lanes):
            store(line(given, j, like), found, j, 0, None)
        if whole < size:
            store(line(given, whole, like), found, whole, 0, size - whole)


@njit(**INLINE)
def _place(j):
    """The index of element j of a vector by parity: in each line, even elements before odd ones."""
    return j - j % _LANES + j % 2 * (_LANES // 2) + j % _LANES // 2


def _array(number, readonly=False):
    return types.Array(number, 1, "C", readonly=readonly)


def _compile(signature, function):
    return njit(signature, cache=True, **PLAIN)(function)

"""The four storage dtypes, their unit roundoff, and the dtype of their sums."""

from functools import cache
from typing import Literal, get_args

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike, NDArray

DtypeName = Literal["float64", "float32", "float16", "bfloat16"]
DTYPE_NAMES: tuple[DtypeName, ...] = get_args(DtypeName)


def dtype_of(name: str) -> np.dtype:
    """The NumPy dtype of a storage dtype's name; ValueError lists the valid names."""
    if name not in DTYPE_NAMES:
        raise ValueError(f"unknown dtype {name!r}; allowed: {', '.join(DTYPE_NAMES)}")
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


@cache
def name_of(dtype: np.dtype) -> str:
    """The name of a dtype, cached: NumPy builds it on every access, which takes microseconds."""
    return dtype.name


@cache
def sum_dtype(dtype: DTypeLike) -> np.dtype:
    """float64 for float64, else float32: the dtype of the sums of every kernel."""
    return np.dtype(np.float64 if np.dtype(dtype) == np.float64 else np.float32)


@cache
def gamma_names(dtype: DtypeName) -> tuple[DtypeName, ...]:
    """The dtypes allowed for gamma and beta with x of this dtype: the same, or float32 for 16-bit x."""
    return (dtype, "float32") if dtype_of(dtype).itemsize == 2 else (dtype,)


def require_gamma(gamma_dtype: DtypeName, dtype: DtypeName) -> None:
    """ValueError where gamma of this dtype is not allowed with x of `dtype`."""
    if gamma_dtype not in gamma_names(dtype):
        allowed = " or ".join(gamma_names(dtype))
        raise ValueError(f"gamma_dtype is {gamma_dtype} beside {dtype}; allowed: {allowed}")


def unit_roundoff(dtype: DTypeLike) -> float:
    """u = 2**-p of a dtype with p significant bits: 2**-53, 2**-24, 2**-11, 2**-8."""
    return float(ml_dtypes.finfo(np.dtype(dtype)).eps) / 2


def largest(dtype: DTypeLike) -> float:
    """The largest finite number of a dtype (65504 for float16)."""
    return float(ml_dtypes.finfo(np.dtype(dtype)).max)


def round_to(values: NDArray[np.float64], dtype: DTypeLike) -> NDArray:
    """float64 values rounded once, to nearest even, to `dtype`; any shape.

    A cast from float64 to bfloat16 by way of float32 rounds twice. With the first rounding to odd (Boldo &
    Melquiond 2008), the result equals that of a single rounding.
    """
    dtype = np.dtype(dtype)
    if dtype != dtype_of("bfloat16"):
        with np.errstate(over="ignore"):
            return values.astype(dtype)
    return _round_to_odd_float32(values).astype(dtype)


def _round_to_odd_float32(values: NDArray[np.float64]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        nearest = values.astype(np.float32)
    back = nearest.astype(np.float64)
    inexact = np.isfinite(nearest) & (back != values)
    bits = nearest.view(np.uint32).copy()
    even = (bits & 1) == 0
    away = np.abs(back) > np.abs(values)
    bits[inexact & even & ~away] += 1
    bits[inexact & even & away] -= 1
    return bits.view(np.float32)

"""Validation of arguments, the input half of the kernel contract, with one wording for all kernels.

A wrong type or dtype raises TypeError, a wrong shape or value ValueError. Each message names the argument,
its value, and what is allowed.
"""

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of, sum_dtype

# A warning would not say which row it is about. A row that holds inf shows it in its own results (NaN); one
# whose sum of squares overflows the dtype of the sums has an infinite std, so that x_hat is 0 or NaN.
ieee = np.errstate(over="ignore", invalid="ignore")

_KINDS = 1024  # of valid calls to cache: bounded, as the rows may differ in every call of a long run
_MOST_WORK = 10_000  # candidates for a common element of two arrays that NumPy tries

_FLOAT32 = np.dtype(np.float32)
_STORAGE = frozenset(dtype_of(name) for name in DTYPE_NAMES)

Outputs = tuple[NDArray, NDArray, NDArray]


class Arrays(NamedTuple):
    """The arrays that a kernel takes: `allowed` describes them, `belongs` tests for them.

    `plain` arrays are C-contiguous and aligned to their dtype; `to_plain` copies those that are not. `empty`
    allocates one, and `overlap` tests two for a common element.
    """

    allowed: str
    belongs: Callable[[object], bool]
    empty: Callable[..., Any]
    plain: Callable[[Any], bool]
    to_plain: Callable[[Any], Any]
    overlap: Callable[[Any, Any], bool]


def _overlap(one: NDArray, other: NDArray) -> bool:
    """Whether two arrays share an element; also True where that would take long to decide."""
    if not np.may_share_memory(one, other):
        return False
    try:
        return np.shares_memory(one, other, max_work=_MOST_WORK)
    except np.exceptions.TooHardError:
        return True


HOST = Arrays(
    allowed="numpy.ndarray (this kernel runs on the CPU)",
    belongs=lambda value: (
        type(value) is np.ndarray
        or (isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray | np.matrix))
    ),
    empty=np.empty,
    plain=lambda array: array.flags.c_contiguous and array.flags.aligned,
    to_plain=lambda array: np.require(array, requirements="CA"),
    overlap=_overlap,
)


def forward(x: NDArray, gamma: NDArray, beta: NDArray, eps: float, arrays: Arrays = HOST) -> float:
    """Check x (..., D), gamma (D,), beta (D,) and eps; returns eps as a float."""
    _array("x", x, arrays)
    _array("gamma", gamma, arrays)
    _array("beta", beta, arrays)
    return real_eps(eps, sums_of_kind(x.shape, x.dtype, gamma.shape, gamma.dtype, beta.shape, beta.dtype))


@lru_cache(_KINDS)
def sums_of_kind(
    shape: tuple[int, ...],
    dtype: np.dtype,
    gamma_shape: tuple[int, ...],
    gamma_dtype: np.dtype,
    beta_shape: tuple[int, ...],
    beta_dtype: np.dtype,
) -> np.dtype:
    """Check shapes and dtypes of x, gamma and beta; returns the dtype of the sums.

    It is cached, since the calls of a model have few distinct signatures.
    """
    if dtype not in _STORAGE:
        raise TypeError(f"x has dtype {dtype}; allowed: {', '.join(DTYPE_NAMES)}")
    last = shape[-1:]
    if last in ((), (0,)):
        raise ValueError(f"x has shape {shape}; allowed: (..., D) with D >= 1")
    for name, found in (("gamma", gamma_shape), ("beta", beta_shape)):
        if found != last:
            raise ValueError(f"{name} has shape {found}; allowed: {last}, the last axis of x")
    allowed = (dtype,) if dtype.itemsize > 2 else (dtype, _FLOAT32)
    if gamma_dtype not in allowed:
        raise TypeError(f"gamma has dtype {gamma_dtype} beside x of {dtype}; allowed: {_names(allowed)}")
    if beta_dtype != gamma_dtype:
        raise TypeError(f"beta has dtype {beta_dtype}; allowed: {gamma_dtype}, as gamma")
    return sum_dtype(dtype)


def backward(dy: NDArray, shape: tuple[int, ...], dtype: np.dtype, arrays: Arrays = HOST) -> None:
    """Check dy against the shape and dtype of x in the forward pass."""
    _array("dy", dy, arrays)
    if dy.shape != shape:
        raise ValueError(f"dy has shape {dy.shape}; allowed: {shape}, as x in the forward pass")
    if dy.dtype != dtype:
        raise TypeError(f"dy has dtype {dy.dtype}; allowed: {dtype}, as x in the forward pass")


def saved_fields(saved: object, fields: type) -> None:
    """Check that `saved` is a tuple with all fields of the NamedTuple that the forward pass returns."""
    if not (isinstance(saved, tuple) and len(saved) == len(fields._fields)):
        raise TypeError(f"saved is {_kind(saved)}; allowed: what forward returned")


def saved(arrays: Arrays = HOST, /, **values: NDArray) -> None:
    """Check that saved values, by name, are arrays of the kernel's device."""
    for name, value in values.items():
        _array(f"saved {name}", value, arrays)


def saved_statistics(x: NDArray, mean: NDArray, rstd: NDArray, gamma: NDArray) -> None:
    """Check a saved gamma, mean and rstd against x; mean and rstd have one number per row in any shape."""
    wide = _sums_of_saved(x.shape, x.dtype, gamma)
    _one_a_row("mean", mean, x.shape, wide)
    _one_a_row("rstd", rstd, x.shape, wide)


def saved_normalized(x_hat: NDArray, rstd: NDArray, gamma: NDArray, dtype: np.dtype) -> None:
    """As `saved_statistics`, where x_hat in the dtype of the sums is saved instead of an x of this dtype."""
    wide = _sums_of_saved(x_hat.shape, dtype, gamma)
    if x_hat.dtype != wide:
        raise ValueError(f"saved x_hat has dtype {x_hat.dtype}; allowed: {wide}, for x of {dtype}")
    _one_a_row("rstd", rstd, x_hat.shape, wide)


def _sums_of_saved(shape: tuple[int, ...], dtype: np.dtype, gamma: NDArray) -> np.dtype:
    """Check a saved gamma against the shape and dtype of x; returns the dtype of the sums."""
    if gamma.shape != shape[-1:]:
        raise ValueError(f"saved gamma has shape {gamma.shape}; allowed: {shape[-1:]}, the last axis of x")
    return sums_of_kind(shape, dtype, *[gamma.shape, gamma.dtype] * 2)


def _one_a_row(name: str, found: NDArray, shape: tuple[int, ...], wide: np.dtype) -> None:
    rows = math.prod(shape[:-1])
    if found.size != rows or found.dtype != wide:
        given = f"saved {name} has shape {found.shape} and dtype {found.dtype}"
        raise ValueError(f"{given}; allowed: {rows} of {wide}")


def fits(array: object, shape: tuple[int, ...], dtype: np.dtype) -> bool:
    """Whether it is a plain, writable NumPy array of this shape and dtype; a fast test that most pass."""
    return type(array) is np.ndarray and array.shape == shape and array.dtype == dtype and array.flags.carray


def all_fit(out: object, shape: tuple[int, ...], dtype: np.dtype, gamma_dtype: np.dtype) -> bool:
    """Whether `out` is (dx, dgamma, dbeta), each of which `fits`."""
    if not (isinstance(out, (tuple, list)) and len(out) == 3):
        return False
    dx, dgamma, dbeta = out
    vector = shape[-1:]
    return fits(dx, shape, dtype) and fits(dgamma, vector, gamma_dtype) and fits(dbeta, vector, gamma_dtype)


def output(
    name: str,
    out: NDArray | None,
    shape: tuple[int, ...],
    dtype: np.dtype,
    inputs: tuple[NDArray, ...],
    arrays: Arrays = HOST,
) -> NDArray:
    """`out`, checked to be writable and to overlap no input, or a new array where it is None."""
    if out is None:
        return arrays.empty(shape, dtype)
    if not inputs and fits(out, shape, dtype):
        return out
    _array(name, out, arrays)
    if out.shape != shape:
        raise ValueError(f"{name} has shape {out.shape}; allowed: {shape}")
    if out.dtype != dtype:
        raise TypeError(f"{name} has dtype {out.dtype}; allowed: {dtype}")
    if not getattr(out.flags, "writeable", True):  # CuPy has no read-only arrays
        raise ValueError(f"{name} is read-only; allowed: an array that can be written")
    if not arrays.plain(out) and _folded(out):
        raise ValueError(f"{name} overlaps itself, its strides are {out.strides}; allowed: no element twice")
    for other in inputs:
        if arrays.overlap(out, other):
            raise ValueError(f"{name} overlaps another array of the call; allowed: memory of its own")
    return out


def gradients(
    out: Outputs | None,
    shape: tuple[int, ...],
    dtype: np.dtype,
    gamma_dtype: np.dtype,
    inputs: tuple[NDArray, ...] | None,
    arrays: Arrays = HOST,
) -> Outputs:
    """dx (..., D), dgamma (D,), dbeta (D,) to be written: those of `out` after a check, or new ones.

    inputs: the arrays that they must not overlap, besides each other; None leaves that to the caller.
    """
    if out is not None and not (isinstance(out, tuple | list) and len(out) == 3):
        raise TypeError(f"out is {_kind(out)}; allowed: None or the tuple (dx, dgamma, dbeta)")
    dx, dgamma, dbeta = (None, None, None) if out is None else out
    vector, apart = shape[-1:], inputs is not None
    dx = output("out dx", dx, shape, dtype, inputs or (), arrays)
    dgamma = output("out dgamma", dgamma, vector, gamma_dtype, (*inputs, dx) if apart else (), arrays)
    dbeta = output("out dbeta", dbeta, vector, gamma_dtype, (*inputs, dx, dgamma) if apart else (), arrays)
    return dx, dgamma, dbeta


def _folded(array: NDArray) -> bool:
    """Whether two elements of an array share memory; compares all addresses only if strides do not decide."""
    axes = zip(array.strides, array.shape, strict=True)
    steps = sorted((abs(stride), count) for stride, count in axes if count > 1)
    span, nested = array.itemsize, True
    for stride, count in steps:
        nested &= stride >= span
        span += stride * (count - 1)
    if nested or array.size == 0:
        return False
    return span < array.nbytes or _meet(steps, array.itemsize)


def _meet(steps: list[tuple[int, int]], itemsize: int) -> bool:
    places = np.zeros(1, np.int64)
    for stride, count in steps:
        places = np.add.outer(places, stride * np.arange(count)).ravel()
    places.sort()
    return bool((np.diff(places) < itemsize).any())


def _array(name: str, value: object, arrays: Arrays) -> None:
    if not arrays.belongs(value):
        raise TypeError(f"{name} is {_kind(value)}; allowed: {arrays.allowed}")


def _kind(value: object) -> str:
    length = f" of {len(value)}" if isinstance(value, tuple | list) else ""
    return f"a {type(value).__module__}.{type(value).__qualname__}{length}"


def _names(dtypes: Iterable[np.dtype]) -> str:
    return " or ".join(dtype.name for dtype in dict.fromkeys(dtypes))


def real_eps(eps: float, sums: np.dtype) -> float:
    """Check eps for sums of a dtype; returns it as a float."""
    if type(eps) is float:
        return _held(eps, sums)
    if isinstance(eps, bool) or not isinstance(eps, Real):
        raise TypeError(f"eps is {eps!r}, {_kind(eps)}; allowed: a real number")
    return _positive(eps, sums)


def _positive(eps: float, sums: np.dtype) -> float:
    try:
        value = float(eps)
    except OverflowError:
        value = math.inf
    if not (math.isfinite(value) and eps > 0):
        raise ValueError(f"eps is {eps!r}; allowed: finite and > 0")
    with np.errstate(over="ignore", under="ignore"):
        kept = float(sums.type(value))
    if kept == 0 or math.isinf(kept):
        raise ValueError(
            f"eps is {eps!r}, which is {kept} in {sums}, the dtype of the sums; allowed: finite and > 0 there"
        )
    return value


_held = lru_cache(64)(_positive)  # eps is the same in all calls of a model

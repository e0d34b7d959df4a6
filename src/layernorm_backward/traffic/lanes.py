"""Stand-ins in NumPy for `kernels.lanes` and `lane_memory` that count: the same names, arithmetic and bits.

`counting` replaces both modules by this one while numba_fused runs in Python. A tally then records each line
of an array of x's size (`tensors`) that is read, written or prefetched, and each operation on lanes, once for
each lane, `fma` twice.
"""

import importlib.util
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
from numba import config, vectorize
from numpy.typing import NDArray

from layernorm_backward.kernels import (
    lane_memory,
    lanes,
    numba_backward,
    numba_backward_lines,
    numba_calls,
    numba_chunks,
    numba_disjoint,
    numba_forward,
    numba_forward_lines,
    numba_fused,
    numba_lag_backward,
    numba_lag_forward,
    numba_passes,
    numba_ring,
    numba_scratch,
    numba_sharing,
    numba_vectors,
    numba_walk,
)
from layernorm_backward.traffic.arrays import Tally

LINE, as_stored = lanes.LINE, lane_memory.as_stored
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_STORED = {np.dtype(np.int16): np.dtype(np.float16), np.dtype(np.uint16): _BFLOAT16}
_REPLACED = (lanes, lane_memory)
_COPIED = (
    numba_walk,
    numba_disjoint,
    numba_ring,
    numba_scratch,
    numba_sharing,
    numba_forward_lines,
    numba_lag_forward,
    numba_forward,
    numba_backward_lines,
    numba_lag_backward,
    numba_backward,
    numba_chunks,
    numba_passes,
    numba_vectors,
    numba_calls,
    numba_fused,
)  # in the order in which they import each other
_tally = Tally()
_tensors: list[NDArray] = []


@contextmanager
def counting(tally: Tally, tensors: Iterable[NDArray]) -> Iterator[ModuleType]:
    """numba_fused in Python, with its operations and its accesses to `tensors` counted in `tally`."""
    global _tally
    _tally, _tensors[:] = tally, tensors
    names = [module.__name__ for module in (*_REPLACED, *_COPIED)]
    before, compiled = {name: sys.modules[name] for name in names}, config.DISABLE_JIT
    config.DISABLE_JIT = True
    try:
        for module in _REPLACED:
            _install(module.__name__, sys.modules[__name__])
        for module in _COPIED:
            _install(module.__name__, _loaded_anew(module))
        yield sys.modules[numba_fused.__name__]
    finally:
        config.DISABLE_JIT = compiled
        for name, module in before.items():
            _install(name, module)


def _install(name: str, module: ModuleType) -> None:
    """Replace a module of a package for both kinds of import, by its full name and from the package."""
    package, _, own = name.rpartition(".")
    sys.modules[name] = module
    setattr(sys.modules[package], own, module)


def _loaded_anew(module: ModuleType) -> ModuleType:
    spec = importlib.util.spec_from_file_location(module.__name__, module.__file__)
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    return copy


class Lanes:
    """Numbers (rows, width)."""

    def __init__(self, numbers: NDArray) -> None:
        self.numbers = numbers

    @property
    def rows(self) -> int:
        return len(self.numbers)

    @property
    def width(self) -> int:
        return self.numbers.shape[1]

    def __add__(self, other: "Lanes") -> "Lanes":
        return _operated(self.numbers + other.numbers)

    def __sub__(self, other: "Lanes") -> "Lanes":
        return _operated(self.numbers - other.numbers)

    def __mul__(self, other: "Lanes") -> "Lanes":
        return _operated(self.numbers * other.numbers)

    def __truediv__(self, other: "Lanes") -> "Lanes":
        return _operated(self.numbers / other.numbers)

    def __neg__(self) -> "Lanes":
        return Lanes(-self.numbers)


def _operated(numbers: NDArray) -> Lanes:
    _tally.operations += numbers.size
    return Lanes(numbers)


def zeros(x: NDArray, rows: int) -> Lanes:
    number = np.float32 if x.dtype in _STORED else x.dtype
    return Lanes(np.zeros((rows, LINE // x.itemsize), number))


def by_parity(like: Lanes) -> Lanes:
    return like


def parity_lanes(dtype: np.dtype) -> int:
    return 0


def width(like: Lanes) -> int:
    return like.width


def height(like: Lanes) -> int:
    return like.rows


def elements(array: NDArray) -> NDArray:
    return array.reshape(-1)


class _Moved:
    """The elements of an array, the first of them at index -by."""

    def __init__(self, values: NDArray, by: int) -> None:
        self.values, self.by = values, by

    def __getitem__(self, at: int) -> Any:
        return self.values[at + self.by]


def moved(values: NDArray, by: int) -> NDArray | _Moved:
    return _Moved(values, by) if by < 0 else values[by:]


def load(x: NDArray, start: int, stride: int, count: int | None, like: Lanes) -> Lanes:
    places = _places(start, stride, like, count)
    _tally.read(_addresses(x, places))
    found = np.zeros_like(like.numbers)
    found[:, :count] = x.view(_STORED.get(x.dtype, x.dtype))[places]
    return Lanes(found)


def store(values: Lanes, x: NDArray, start: int, stride: int, count: int | None) -> None:
    _put(values, x, _places(start, stride, values, count), streamed=False)


def stream(values: Lanes, x: NDArray, start: int, stride: int) -> None:
    _put(values, x, _places(start, stride, values, None), streamed=True)


def prefetch(x: NDArray, start: int, like: Lanes) -> None:
    places = start + np.arange(width(like))
    _tally.fetched(_addresses(x, places[(places >= 0) & (places < x.size)]))


prefetch_l2 = prefetch


def fence() -> None:
    pass


def align_stack() -> None:
    pass


def full(value: float, like: Lanes) -> Lanes:
    return Lanes(np.full_like(like.numbers, value))


def numbers(values: NDArray | _Moved, first: int, like: Lanes) -> Lanes:
    return Lanes(np.array([[values[first + row]] for row in range(like.rows)]))


def broadcast(numbers: Lanes, like: Lanes) -> Lanes:
    return Lanes(np.broadcast_to(numbers.numbers, like.numbers.shape))


def fold(lanes: Lanes) -> Lanes:
    folded = _folded(lanes.numbers)
    _tally.operations += lanes.numbers.size - folded.size
    return Lanes(folded)


def add_folded_products(sums: Lanes, a: Lanes, b: Lanes) -> Lanes:
    if a.width == sums.width:
        return fma(a, b, sums)
    (first, second), (factor, other) = ([Lanes(half) for half in _halves(one.numbers)] for one in (a, b))
    return sums + fma(first, factor, second * other)


def totals(lanes: Lanes) -> Lanes:
    numbers = _folded(lanes.numbers)
    while numbers.shape[1] > 1:
        first, second = np.hsplit(numbers, 2)
        numbers = first + second
    return Lanes(numbers)


def _folded(numbers: NDArray) -> NDArray:
    return numbers if numbers.shape[1] == LINE // numbers.itemsize else np.add(*_halves(numbers))


def _halves(numbers: NDArray) -> list[NDArray]:
    """The two halves of lines that are added when they are folded, by the dtype of the tensors."""
    if _tensors[0].dtype == _BFLOAT16:
        return [numbers[:, ::2], numbers[:, 1::2]]
    return np.hsplit(numbers, 2)


def mask_tail(lanes: Lanes, count: int | None) -> Lanes:
    if count is None:
        return lanes
    return Lanes(np.where(np.arange(lanes.width) < count, lanes.numbers, 0).astype(lanes.numbers.dtype))


def select_greater(test: Lanes, threshold: Lanes, yes: Lanes, no: Lanes) -> Lanes:
    return Lanes(np.where(test.numbers > threshold.numbers, yes.numbers, no.numbers))


def from_row(which: int, yes: Lanes, no: Lanes) -> Lanes:
    return Lanes(np.where(np.arange(no.rows)[:, None] == which, yes.numbers, no.numbers))


def any_greater(a: Lanes, b: Lanes) -> bool:
    return bool((a.numbers > b.numbers).any())


def sqrt(lanes: Lanes) -> Lanes:
    return Lanes(np.sqrt(lanes.numbers))


def likely(test: bool) -> bool:
    return test


def rows_of(lanes: Lanes) -> list[Lanes | None]:
    rows: list[Lanes | None] = [Lanes(row[None]) for row in lanes.numbers]
    return rows + [None] * (4 - lanes.rows)


def stack_lines(x: NDArray, count: int) -> NDArray:
    return np.zeros(count * LINE // x.itemsize, x.dtype)


def copy_line(source: NDArray, start: int, target: NDArray, to: int, count: int | None) -> None:
    _copy(source, start, target, to, LINE // source.itemsize if count is None else count, streamed=False)


def stream_line(source: NDArray, start: int, target: NDArray, to: int) -> None:
    _copy(source, start, target, to, LINE // source.itemsize, streamed=True)


def line(values: NDArray, start: int, like: Lanes) -> Lanes:
    return Lanes(values[None, start : start + like.width].copy())


def lines(values: NDArray, start: int, stride: int, like: Lanes) -> Lanes:
    return Lanes(values[_places(start, stride, like, None)])


def put(lanes: Lanes, values: NDArray, start: int) -> None:
    values[start : start + lanes.numbers.size] = lanes.numbers.ravel()


def repeat(one: Lanes, like: Lanes) -> Lanes:
    return Lanes(np.broadcast_to(one.numbers, like.numbers.shape))


def add_rows(one: Lanes, lanes: Lanes) -> Lanes:
    for row in range(lanes.rows):
        one = one + Lanes(lanes.numbers[row : row + 1])
    return one


def add_products(one: Lanes, a: Lanes, b: Lanes) -> Lanes:
    for row in range(a.rows):
        one = fma(Lanes(a.numbers[row : row + 1]), Lanes(b.numbers[row : row + 1]), one)
    return one


def fma(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    _tally.operations += 2 * c.numbers.size
    return Lanes(_fused(a.numbers, b.numbers, c.numbers))


@vectorize(["float32(float32, float32, float32)", "float64(float64, float64, float64)"], cache=True)
def _fused(a: float, b: float, c: float) -> float:
    return lanes.fma(a, b, c)


def fetch_add(counter: NDArray) -> int:
    counter[0] += 1
    return int(counter[0]) - 1


def _places(start: int, stride: int, like: Lanes, count: int | None) -> NDArray:
    """Indices (rows, count) of the elements of a line of each row; None is all of them."""
    return start + stride * np.arange(like.rows)[:, None] + np.arange(like.width if count is None else count)


def _put(values: Lanes, x: NDArray, places: NDArray, *, streamed: bool) -> None:
    _tally.written(_addresses(x, places), streamed=streamed)
    number = x.view(_STORED.get(x.dtype, x.dtype))
    number[places] = values.numbers[:, : places.shape[1]].astype(number.dtype)


def _copy(source: NDArray, start: int, target: NDArray, to: int, count: int, *, streamed: bool) -> None:
    _tally.read(_addresses(source, start + np.arange(count)))
    _tally.written(_addresses(target, to + np.arange(count)), streamed=streamed)
    target[to : to + count] = source[start : start + count]


def _addresses(x: NDArray, places: NDArray) -> list[int]:
    """Addresses of the elements of an array among the tensors; none of other arrays."""
    if not any(np.may_share_memory(x, tensor) for tensor in _tensors):
        return []
    return (x.__array_interface__["data"][0] + x.itemsize * places.ravel()).tolist()

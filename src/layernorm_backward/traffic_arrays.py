"""Arrays that count what is done with them: whole passes of NumPy, or single elements of a compiled kernel.

`Counted` reports each ufunc, reduction, cast and assignment with the sizes of what it reads and writes.
`Elements` is indexed element by element by a compiled kernel's own source, run by Python; it yields
`Number`s, which count each operation. A load of one of the last REGISTERS elements is free, as in a register;
one of the last CACHE elements is read from the cache.
"""

import operator
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

REGISTERS = 8
CACHE = 256


@dataclass
class Tally:
    """What has been counted so far, in elements and operations."""

    reads: int = 0
    memory_reads: int = 0
    writes: int = 0
    operations: int = 0
    row_sums: int = 0
    _recent: OrderedDict[int, None] = field(default_factory=OrderedDict, repr=False)

    def passed(self, reads: int, writes: int, operations: int = 0) -> None:
        """A pass over whole arrays, which are taken to be larger than any cache."""
        self.reads += reads
        self.memory_reads += reads
        self.writes += writes
        self.operations += operations

    def loaded(self, address: int) -> None:
        """One element was read by a compiled kernel."""
        age = next((n for n, seen in enumerate(reversed(self._recent)) if seen == address), CACHE)
        self.reads += age >= REGISTERS
        self.memory_reads += age >= CACHE
        self._recent[address] = None
        self._recent.move_to_end(address)
        while len(self._recent) > CACHE:
            self._recent.popitem(last=False)


class _Tallied(np.ndarray):
    tally: Tally

    def __array_finalize__(self, source: Any) -> None:
        self.tally = getattr(source, "tally", None) or Tally()


class Counted(_Tallied):
    """An array whose passes are counted, and those of all that is computed from it."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if "out" in options:
            options["out"] = tuple(_plain(array) for array in options["out"])
        found = getattr(ufunc, method)(*map(_plain, inputs), **options)
        arrays = {id(array): np.size(array) for array in inputs if isinstance(array, np.ndarray)}
        work = np.size(inputs[0]) if method == "reduce" else np.size(found)
        self.tally.passed(sum(arrays.values()), np.size(found), work)
        axes = np.atleast_1d(options.get("axis", 0))
        self.tally.row_sums += method == "reduce" and set(axes % inputs[0].ndim) == {inputs[0].ndim - 1}
        return counted(found, self.tally)

    def __setitem__(self, key: Any, value: Any) -> None:
        target = _plain(self)[key]
        target[...] = _plain(value)
        self.tally.passed(value.size if isinstance(value, np.ndarray) else 0, target.size)

    def astype(self, *arguments: Any, **options: Any) -> NDArray:
        found = super().astype(*arguments, **options)
        if not np.may_share_memory(found, self):
            self.tally.passed(self.size, found.size)
        return found


class Elements(_Tallied):
    """An array whose single elements are counted as they are loaded and stored."""

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        if isinstance(found, np.ndarray):
            return found
        self.tally.loaded(self.__array_interface__["data"][0] + int(key) * self.strides[0])
        return Number(float(found), self.tally)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, float(value))
        self.tally.writes += 1


class Number:
    """A real number that counts the operations it takes part in, and passes that on to their results."""

    __array_ufunc__ = None  # NumPy's scalars leave the operation to this class

    def __init__(self, value: float, tally: Tally) -> None:
        self.value, self.tally = value, tally

    def __float__(self) -> float:
        return self.value

    def __lt__(self, other: Any) -> bool:
        return self.value < float(other)


def _counting(function: Any, swapped: bool) -> Any:
    def operate(self: Number, other: Any) -> Number:
        self.tally.operations += 1
        pair = (float(other), self.value) if swapped else (self.value, float(other))
        return Number(function(*pair), self.tally)

    return operate


for _name in ("add", "sub", "mul", "truediv"):
    setattr(Number, f"__{_name}__", _counting(getattr(operator, _name), swapped=False))
    setattr(Number, f"__r{_name}__", _counting(getattr(operator, _name), swapped=True))


def counted(array: Any, tally: Tally, kind: type[_Tallied] = Counted) -> Any:
    """A view of an array that counts into `tally`; what is no array stays as it is."""
    if not isinstance(array, np.ndarray):
        return array
    view = array.view(kind)
    view.tally = tally
    return view


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, _Tallied) else value

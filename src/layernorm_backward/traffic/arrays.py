"""Arrays that count accesses and operations, and a model of the cache between them and memory.

`Counted` reports each ufunc, reduction, cast and assignment to a `Tally`. The tally models a write-back cache
of some elements with LRU replacement: a read of a cached element does not reach memory, and a written element
reaches memory when it is evicted. A cache of 0 elements models passes over arrays larger than any cache.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass
class Tally:
    """The counts so far, in elements and operations."""

    cache: int = 0
    reads: int = 0
    memory_reads: int = 0
    writes: int = 0
    memory_writes: int = 0
    operations: int = 0
    row_sums: int = 0
    _held: OrderedDict[int, bool] = field(default_factory=OrderedDict, repr=False)  # address -> written

    def passed(self, reads: int, writes: int, operations: int = 0) -> None:
        """A pass over uncached elements."""
        self.reads += reads
        self.memory_reads += reads
        self.writes += writes
        self.memory_writes += writes
        self.operations += operations

    def read(self, addresses: Iterable[int]) -> None:
        for address in addresses:
            self.reads += 1
            self._used(address, written=False)

    def fetched(self, addresses: Iterable[int]) -> None:
        """Prefetched elements, which do not count as accesses of the kernel."""
        for address in addresses:
            self._used(address, written=False)

    def written(self, addresses: Iterable[int], *, streamed: bool = False) -> None:
        """Elements written, into the cache or, if `streamed`, past it."""
        for address in addresses:
            self.writes += 1
            if streamed:
                self._held.pop(address, None)
                self.memory_writes += 1
            else:
                self._used(address, written=True)

    def restart(self) -> None:
        """Reset all counts, and empty the cache."""
        vars(self).update(vars(Tally(self.cache)))

    def flushed(self, array: NDArray) -> None:
        """Write the modified elements of a result from the cache to memory."""
        self.memory_writes += sum(self._held.pop(address, False) for address in addresses_of(array))

    def _used(self, address: int, *, written: bool) -> None:
        held = self._held.pop(address, None)
        self.memory_reads += held is None and not written
        self._held[address] = written or bool(held)
        while len(self._held) > self.cache:
            self.memory_writes += self._held.popitem(last=False)[1]


def addresses_of(array: NDArray) -> list[int]:
    """The address of each element."""
    places = np.array(array.__array_interface__["data"][0])
    for size, stride in zip(array.shape, array.strides, strict=True):
        places = places[..., None] + stride * np.arange(size)
    return places.ravel().tolist()


class Counted(np.ndarray):
    """An array whose passes are counted, as are those of all arrays computed from it."""

    tally: Tally

    def __array_finalize__(self, source: Any) -> None:
        self.tally = getattr(source, "tally", None) or Tally()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if "out" in options:
            options["out"] = tuple(_plain(array) for array in options["out"])
        found = getattr(ufunc, method)(*map(_plain, inputs), **options)
        arrays = {id(array): array for array in inputs if isinstance(array, np.ndarray)}
        work = np.size(inputs[0]) if method == "reduce" else np.size(found)
        _pass(self.tally, list(arrays.values()), found, work)
        axes = np.atleast_1d(options.get("axis", 0))
        self.tally.row_sums += method == "reduce" and set(axes % inputs[0].ndim) == {inputs[0].ndim - 1}
        return counted(found, self.tally)

    def __setitem__(self, key: Any, value: Any) -> None:
        target = _plain(self)[key]
        target[...] = _plain(value)
        _pass(self.tally, [value] if isinstance(value, np.ndarray) else [], target)

    def astype(self, *arguments: Any, **options: Any) -> NDArray:
        found = super().astype(*arguments, **options)
        if not np.may_share_memory(found, self):
            _pass(self.tally, [self], found)
        return found


def _pass(tally: Tally, read: list[NDArray], written: Any, operations: int = 0) -> None:
    if not tally.cache:
        tally.passed(sum(array.size for array in read), np.size(written), operations)
        return
    tally.operations += operations
    for array in read:
        tally.read(addresses_of(array))
    tally.written(addresses_of(np.asarray(written)))


def counted(array: Any, tally: Tally) -> Any:
    """A view of an array that counts into `tally`; other values are returned unchanged."""
    if not isinstance(array, np.ndarray):
        return array
    view = array.view(Counted)
    view.tally = tally
    return view


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Counted) else value

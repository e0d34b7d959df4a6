"""Arrays that hold the numbers of a block again and again: what they are to hold is known without a copy."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Repeated(NamedTuple):
    """A C-contiguous array, and the numbers (n,) that it is to hold again and again, in its dtype."""

    array: NDArray
    block: NDArray

    def fill(self) -> None:
        """Write the numbers into the array."""
        for part in self._parts():
            part[...] = _bits(self.block)[: part.size]

    def intact(self) -> bool:
        """Whether the array holds them, bit by bit."""
        return all(np.array_equal(part, _bits(self.block)[: part.size]) for part in self._parts())

    def _parts(self) -> Iterator[NDArray]:
        flat, step = _bits(self.array), self.block.size
        return (flat[start : start + step] for start in range(0, flat.size, step))


def restored(given: Mapping[str, Repeated]) -> list[str]:
    """The names of arrays that did not hold their numbers; now they do."""
    lost = [name for name, one in given.items() if not one.intact()]
    for name in lost:
        given[name].fill()
    return lost


def _bits(array: NDArray) -> NDArray:
    return array.reshape(-1).view(f"u{array.itemsize}")

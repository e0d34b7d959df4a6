"""Arrays filled with repetitions of a block, whose contents can be checked and restored without a copy."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.timing.blocks import blocks, on_all_cores

BLOCK = 1_000_003  # elements of a block of random numbers: a prime, so no multiple of a row


class Repeated(NamedTuple):
    """A C-contiguous array, and the block (n,) that it repeats, in its dtype."""

    array: NDArray
    block: NDArray

    def fill(self) -> None:
        """Fill the array with the block."""
        block = _bits(self.block)

        def write(part: NDArray) -> None:
            part[...] = block[: part.size]

        on_all_cores(write, blocks(_bits(self.array), block.size))

    def intact(self) -> bool:
        """Whether the array still holds the block's repetitions, bit for bit."""
        block = _bits(self.block)

        def same(part: NDArray) -> bool:
            return np.array_equal(part, block[: part.size])

        return all(on_all_cores(same, blocks(_bits(self.array), block.size)))


def restored(given: Mapping[str, Repeated]) -> list[str]:
    """Restore the contents of all arrays; returns the names of those that had changed."""
    lost = [name for name, one in given.items() if not one.intact()]
    for name in lost:
        given[name].fill()
    return lost


def _bits(array: NDArray) -> NDArray:
    return array.reshape(-1).view(f"u{array.itemsize}")

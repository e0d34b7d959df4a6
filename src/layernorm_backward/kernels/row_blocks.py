"""Cache-resident blocks of rows for kernels in plain NumPy, and sums over rows that do not depend on them.

A block is a power of two of groups of rows. The rows of a group depend on D only; the groups of a block also
depend on the second-level cache. Rows of a group are added one after the other, groups pairwise: the sums
have the same bits for every cache and block.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward import machine

# Rows at most: with 16 added in sequence, pairwise sums are as accurate as NumPy's, which start at 128/8.
GROUP = 16
GROUP_ELEMENTS = 1 << 15  # of a group at most, unless a single row has more
SHARE = 8  # a block of one array takes 1/SHARE of the second-level cache: four arrays are in use
LEAST_CACHE = 1 << 18  # bytes of the second-level cache, assumed where the system does not report it
UNBUFFERED = 256  # elements of a row from which NumPy's broadcasting is faster without its buffer


class Blocks(NamedTuple):
    """Rows of a group, and of a block of a power of two of groups."""

    group: int
    block: int


def blocks(hidden: int, itemsize: int) -> Blocks:
    """The blocks for rows of D elements of so many bytes."""
    group = _power_of_two(min(GROUP, GROUP_ELEMENTS // hidden))
    fitting = (_second_level_cache() or LEAST_CACHE) // (SHARE * itemsize * hidden)
    return Blocks(group, group * _power_of_two(fitting // group))


@contextmanager
def buffers_for(hidden: int) -> Iterator[None]:
    """Let NumPy broadcast long rows in place, not through a copy in its iterator's buffer.

    The buffer of 8192 elements is filled with whole rows where a row is shorter, which doubles the time of
    an operation of (N, D) with (N, 1) or (D,). The setting is this thread's, and is restored.
    """
    before = np.getbufsize()
    np.setbufsize(16 if hidden >= UNBUFFERED else before)
    try:
        yield
    finally:
        np.setbufsize(before)


class RowSums:
    """The sum over the rows of successive blocks, `width` numbers a row.

    Blocks are added like carries in a binary counter: a sum waits until as many rows again have been summed.
    """

    def __init__(self, sizes: Blocks, width: int, dtype: np.dtype) -> None:
        self._sizes, self._count = sizes, 0
        self._groups = np.empty((sizes.block // sizes.group, width), dtype)
        self._waiting: list[NDArray] = []

    def add(self, terms: NDArray) -> None:
        """Add a block (rows, width); all blocks but the last are whole."""
        total = self._of_block(terms)
        count = self._count
        while count & 1:
            total += self._waiting.pop()
            count >>= 1
        self._waiting.append(total)
        self._count += 1

    def total(self) -> NDArray:
        """The sum (width,) of all blocks added; zeros where there are none."""
        waiting = self._waiting or [np.zeros(self._groups.shape[1], self._groups.dtype)]
        total = waiting[-1]
        for other in waiting[-2::-1]:
            total = total + other
        return total

    def _of_block(self, terms: NDArray) -> NDArray:
        """A new array (width,): the pairwise sum over groups, the last of which may be short."""
        group, (rows, width) = self._sizes.group, terms.shape
        whole, rest = divmod(rows, group)
        sums = self._groups[: whole + (rest > 0)]
        np.add.reduce(terms[: whole * group].reshape(whole, group, width), axis=1, out=sums[:whole])
        if rest:
            np.add.reduce(terms[whole * group :], axis=0, out=sums[whole])
        return _in_pairs(sums)


def _in_pairs(sums: NDArray) -> NDArray:
    """A new array: the pairwise sum over the first axis; a last element without a neighbour is kept."""
    while (count := len(sums)) > 1:
        folded = sums[0 : count - 1 : 2] + sums[1::2]
        sums = np.concatenate([folded, sums[-1:]]) if count % 2 else folded
    return sums[0].copy()


def _power_of_two(most: int) -> int:
    return 1 << max(most, 1).bit_length() - 1


@cache
def _second_level_cache() -> int:
    return machine.cache_bytes().get("l2", 0)

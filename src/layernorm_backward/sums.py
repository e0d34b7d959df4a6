"""Sums along the last axis in an explicit order of additions, each rounded to the dtype of the terms.

The order of NumPy's own sums depends on the memory layout, and sums of ml_dtypes are running sums; the order
of these is fixed. The depth of a sum is the largest number of additions that a term takes part in: at most
`tree_depth(n)` in `tree_sum`, n - 1 in a running sum.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.double_double import two_sum


def tree_depth(count: int) -> int:
    """ceil(log2(count)): the depth of a binary tree of `count` terms."""
    return max(count - 1, 0).bit_length()


def tree_sum(terms: NDArray) -> NDArray:
    """The sum over the last axis of terms (..., n), n > 0, as a binary tree; shape (...,)."""
    while (count := terms.shape[-1]) > 1:
        half = count // 2
        folded = terms[..., :half] + terms[..., half : 2 * half]
        terms = np.concatenate([folded, terms[..., 2 * half :]], axis=-1) if count % 2 else folded
    return terms[..., 0]


def running_sum(terms: NDArray) -> NDArray:
    """The sum over the last axis of terms (..., n), n > 0, one term after another."""
    return np.add.accumulate(terms, axis=-1, dtype=terms.dtype)[..., -1]


def chunked_sum(terms: NDArray, chunks: int, block: int) -> NDArray:
    """The sum over the last axis of terms (..., n), n > 0: running in blocks, then pairwise.

    A block has `block` terms; chunk i of `chunks` begins at block i*B // chunks of B. The blocks of a chunk
    are added in the order of a binary counter: two sums of equally many blocks are merged into one.
    The chunks are added as a binary tree.
    """
    blocks = -(-terms.shape[-1] // block)
    ends = np.arange(chunks + 1) * blocks // chunks
    longest = int(np.max(np.diff(ends)))
    padded = np.zeros((*terms.shape[:-1], chunks, longest * block), terms.dtype)  # zeros change no sum
    for chunk, (start, end) in enumerate(pairwise(ends * block)):
        part = terms[..., start:end]
        padded[..., chunk, : part.shape[-1]] = part
    return tree_sum(_binary_counter_sum(running_sum(padded.reshape(*padded.shape[:-1], longest, block))))


def _binary_counter_sum(sums: NDArray) -> NDArray:
    """The sum over the last axis in the order of a binary counter."""
    levels: dict[int, NDArray] = {}
    for number in range(sums.shape[-1]):
        level, total = 0, sums[..., number]
        while number >> level & 1:
            total = total + levels.pop(level)
            level += 1
        levels[level] = total
    total = np.zeros_like(sums[..., 0])
    for level in sorted(levels):
        total = total + levels[level]
    return total


def chunked_depth(count: int, chunks: int, block: int) -> int:
    """The depth of `chunked_sum`; a running sum of n terms has n - 1 additions."""
    blocks = -(-count // block)
    longest = -(-blocks // chunks)
    return min(count, block) - 1 + (longest.bit_length() if longest > 1 else 0) + tree_depth(chunks)


def compensated_tree(terms: NDArray) -> tuple[NDArray, NDArray]:
    """The sum over the last axis as a binary tree, and the sum of the errors of the tree's additions.

    terms (..., n), n > 0, finite. Together they are off by about (s*u)^2 of sum |terms|, s = `tree_depth(n)`.
    """
    lost = np.zeros_like(terms[..., 0])
    while (count := terms.shape[-1]) > 1:
        half = count // 2
        folded, error = two_sum(terms[..., :half], terms[..., half : 2 * half])
        lost = lost + tree_sum(error)
        terms = np.concatenate([folded, terms[..., 2 * half :]], axis=-1) if count % 2 else folded
    return terms[..., 0], lost


def compensated_sum(terms: NDArray) -> NDArray:
    """A running sum over the last axis whose rounding errors are summed separately (Neumaier 1974)."""
    total = terms[..., 0]
    lost = np.zeros_like(total)
    for term in np.ascontiguousarray(np.moveaxis(terms, -1, 0))[1:]:
        new = total + term
        larger = np.abs(total) >= np.abs(term)
        lost = lost + np.where(larger, (total - new) + term, (term - new) + total)
        total = new
    return total + lost


def pairwise_depth(count: int) -> int:
    """An upper bound on the depth of NumPy's sum along a contiguous axis of `count` terms.

    NumPy halves the axis into blocks of at most 128, keeps 8 running sums per block, and adds the remaining
    terms one by one. Halves are multiples of 8, so a block has at least 112 terms.
    """
    block = min(count, 128) // 8 + 3 + count % 8 if count > 8 else count
    return block + tree_depth(-(-count // 112))


def lanes_depth(count: int, lanes: int, block: int) -> int:
    """The depth of a sum by lines of `lanes`: running in blocks and over blocks, pairwise over lanes."""
    lines = -(-count // lanes)
    return min(lines, block) - 1 + -(-lines // block) - 1 + tree_depth(lanes)


def threads_depth(count: int, threads: int) -> int:
    """The depth of a sum whose terms threads take in turn: running per thread, pairwise over threads."""
    return -(-count // threads) - 1 + tree_depth(threads)

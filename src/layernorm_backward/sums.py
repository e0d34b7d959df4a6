"""Sums along the last axis in an explicit order of additions, each rounded to the dtype of the terms.

NumPy's own order depends on memory layout, and ml_dtypes sums are running sums; these do not vary.
A term moves through at most `tree_depth(n)` additions in `tree_sum`, and n - 1 in a running sum.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.double_double import two_sum


def tree_depth(count: int) -> int:
    """ceil(log2(count)): the roundings a term of a binary tree of `count` leaves takes part in."""
    return max(count - 1, 0).bit_length()


def tree_sum(terms: NDArray) -> NDArray:
    """The sum over the last axis of terms (..., n), n > 0, as a binary tree; shape (...,)."""
    while (count := terms.shape[-1]) > 1:
        half = count // 2
        folded = terms[..., :half] + terms[..., half : 2 * half]
        terms = np.concatenate([folded, terms[..., 2 * half :]], axis=-1) if count % 2 else folded
    return terms[..., 0]


def running_sum(terms: NDArray) -> NDArray:
    """The sum over the last axis of terms (..., n), n > 0, one term after the other."""
    return np.add.accumulate(terms, axis=-1, dtype=terms.dtype)[..., -1]


def chunked_sum(terms: NDArray, chunks: int, block: int) -> NDArray:
    """The sum over the last axis of terms (..., n), n > 0: running in blocks, blocks and chunks in pairs.

    Blocks have `block` terms; chunk i of `chunks` begins at block i*B // chunks of B. The blocks of a chunk
    are added as a binary counter counts: two sums of as many blocks become one.
    """
    blocks = -(-terms.shape[-1] // block)
    ends = np.arange(chunks + 1) * blocks // chunks
    longest = int(np.max(np.diff(ends)))
    padded = np.zeros((*terms.shape[:-1], chunks, longest * block), terms.dtype)  # a 0 more changes no sum
    for chunk, (start, end) in enumerate(pairwise(ends * block)):
        part = terms[..., start:end]
        padded[..., chunk, : part.shape[-1]] = part
    return tree_sum(_counted(running_sum(padded.reshape(*padded.shape[:-1], longest, block))))


def _counted(sums: NDArray) -> NDArray:
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
    """The additions that round a term of `chunked_sum`; the first of a running sum adds to nothing."""
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
    """A running sum over the last axis with the errors of its additions summed apart (Neumaier 1974)."""
    total = terms[..., 0]
    lost = np.zeros_like(total)
    for term in np.ascontiguousarray(np.moveaxis(terms, -1, 0))[1:]:
        new = total + term
        larger = np.abs(total) >= np.abs(term)
        lost = lost + np.where(larger, (total - new) + term, (term - new) + total)
        total = new
    return total + lost


def pairwise_depth(count: int) -> int:
    """An upper bound of the depth of NumPy's sum along a contiguous axis of `count` terms.

    NumPy halves the axis into blocks of at most 128, keeps 8 running sums a block, and adds what is left
    over one by one; halves are multiples of 8, hence 112.
    """
    block = min(count, 128) // 8 + 3 + count % 8 if count > 8 else count
    return block + tree_depth(-(-count // 112))


def lanes_depth(count: int, lanes: int, block: int) -> int:
    """The depth of `count` terms in lines of `lanes`: running in blocks and over blocks, lanes in pairs."""
    lines = -(-count // lanes)
    return min(lines, block) - 1 + -(-lines // block) - 1 + tree_depth(lanes)


def threads_depth(count: int, threads: int) -> int:
    """The depth of `count` terms that threads take in turn: running in a thread, the threads in pairs."""
    return -(-count // threads) - 1 + tree_depth(threads)

"""Sums along the last axis in an explicit order of additions, each rounded to the dtype of the terms.

NumPy's own order depends on memory layout, and ml_dtypes sums are running sums; these do not vary.
A term moves through at most `tree_depth(n)` additions in `tree_sum`, and n - 1 in a running sum.
"""

import numpy as np
from numpy.typing import NDArray


def tree_depth(count: int) -> int:
    """ceil(log2(count)): the roundings a term of a binary tree of `count` leaves takes part in."""
    return max(count - 1, 0).bit_length()


def tree_sum(terms: NDArray) -> NDArray:
    """The sum over the last axis of terms (..., n), n > 0, as a binary tree; shape (...,)."""
    while (count := terms.shape[-1]) > 1:
        half = count // 2
        folded = terms[..., :half] + terms[..., half : 2 * half]
        terms = np.concatenate([folded, terms[..., 2 * half :]], axis=-1)
    return terms[..., 0]


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

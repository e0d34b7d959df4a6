"""Whether results overlap the inputs or each other, checked in the compiled pass itself.

NumPy takes 0.3 us to check two arrays, and a backward pass has 18 pairs of them.
"""

from numba import njit

from layernorm_backward.kernels.numba_walk import PLAIN


@njit(**PLAIN)
def extent(array):
    """The address of the first byte of a C-contiguous array, and the one after its last."""
    start = array.ctypes.data
    return start, start + array.size * array.itemsize


@njit(**PLAIN)
def disjoint(results, taken):
    """Whether each span of `results` shares no byte with the others nor with those of `taken`.

    Both are tuples of `extent`s. An empty span overlaps none.
    """
    for i in range(len(results)):
        for j in range(i):
            if _overlap(results[i], results[j]):
                return False
        for other in taken:
            if _overlap(results[i], other):
                return False
    return True


@njit(**PLAIN)
def _overlap(one, other):
    return min(one[1], other[1]) > max(one[0], other[0])

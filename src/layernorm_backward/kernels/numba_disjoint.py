"""Whether results lie apart from what they are worked out from, told by the compiled pass itself.

NumPy tells it of two arrays in 0.3 us, and a backward pass has 18 pairs of them.
"""

from numba import njit

from layernorm_backward.kernels.numba_walk import PLAIN


@njit(**PLAIN)
def extent(array):
    """The address of the first byte of a C-contiguous array, and that behind its last."""
    start = array.ctypes.data
    return start, start + array.size * array.itemsize


@njit(**PLAIN)
def disjoint(results, taken):
    """Whether each span of `results` shares no byte with the others and with those of `taken`.

    Both are tuples of spans. One without a byte shares none.
    """
    for i in range(len(results)):
        for j in range(i):
            if _shared(results[i], results[j]):
                return False
        for other in taken:
            if _shared(results[i], other):
                return False
    return True


@njit(**PLAIN)
def _shared(one, other):
    return min(one[1], other[1]) > max(one[0], other[0])

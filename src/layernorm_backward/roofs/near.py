"""A loop that stays in the first-level cache: each number of a short vector is read, changed, written back.

What slows it down holds up loads, stores or the instructions between them, and not memory. All that is
compiled into `updates` lies in this file: Numba's cache looks for edits here only.
"""

from numba import njit, prange

BYTES = 8192  # of a thread's vector: a quarter of the smallest first-level cache in use, 32 KB


@njit(parallel=True, cache=True)
def updates(vectors, factor, addend, rounds):
    """`rounds` of v = v*factor + addend on each row of `vectors`, (parts, n), one part a thread."""
    for part in prange(vectors.shape[0]):
        vector = vectors[part]
        for _ in range(rounds):
            for j in range(vector.size):
                vector[j] = vector[j] * factor + addend

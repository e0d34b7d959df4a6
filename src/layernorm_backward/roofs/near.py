"""Loops that stay in the caches of a core: each number of a vector is read, changed, written back.

What slows `updates` down, in the first-level cache, holds up loads, stores or the instructions between them,
and not memory. In `handovers` vectors go from the second-level cache of one core to that of another. All that
is compiled into them lies in this file: Numba's cache looks for edits here only.
"""

from numba import njit, prange

BYTES = 8192  # of a thread's vector: a quarter of the smallest first-level cache in use, 32 KB
HANDED = 256 << 10  # bytes of a vector that is handed on: in a second-level cache, and in no first-level one


@njit(parallel=True, cache=True)
def updates(vectors, factor, addend, rounds):
    """`rounds` of v = v*factor + addend on each row of `vectors`, (parts, n), one part a thread."""
    for part in prange(vectors.shape[0]):
        vector = vectors[part]
        for _ in range(rounds):
            for j in range(vector.size):
                vector[j] = vector[j] * factor + addend


@njit(parallel=True, cache=True)
def handovers(vectors, factor, addend, rounds, step):
    """`rounds` of v = v*factor + addend on all rows of `vectors`, (parts, n), a row each part.

    A part goes on `step` rows from round to round, one thread a part: with 0 it keeps its own.
    """
    parts = vectors.shape[0]
    for turn in range(rounds):
        for part in prange(parts):
            vector = vectors[(part + turn * step) % parts]
            for j in range(vector.size):
                vector[j] = vector[j] * factor + addend

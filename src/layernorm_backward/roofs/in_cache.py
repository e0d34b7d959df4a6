"""Cache-resident loops: each number of a vector is read, changed and written back.

`updates` stays in the first-level cache: whatever slows it down delays loads, stores or the instructions
between them, and not memory. In `handovers` vectors move from the second-level cache of one core to that of
another. All code compiled into them is in this file, the only one that Numba's cache checks for edits.
"""

from numba import njit, prange

BYTES = 8192  # of a thread's vector: a quarter of the smallest first-level cache in use, 32 KB
HANDOVER_BYTES = 256 << 10  # of a vector: it fits a second-level cache, and no first-level one


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
    """`rounds` of v = v*factor + addend on all rows of `vectors`, (parts, n), one thread and one row a part.

    A part moves `step` rows on from round to round; with 0 it keeps its own row.
    """
    parts = vectors.shape[0]
    for turn in range(rounds):
        for part in prange(parts):
            vector = vectors[(part + turn * step) % parts]
            for j in range(vector.size):
                vector[j] = vector[j] * factor + addend

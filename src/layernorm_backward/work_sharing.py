"""How threads share equal units of work: whoever is done takes the next piece, so that no one waits long.

A processor whose physical core also serves someone else is slower than its neighbour for seconds. Pieces
shrink, so that all threads end at about the same time.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

UNITS = 64  # for work that can be cut anywhere


@cache
def pieces(units: int, threads: int) -> NDArray[np.intp]:
    """Ends of pieces, from 0 to `units`: each is half of a thread's share of what is left, at least a unit.

    One thread has it all in one piece. The array is read-only.
    """
    ends = [0]
    while ends[-1] < units:
        left = units - ends[-1]
        ends.append(units if threads == 1 else ends[-1] + max(1, left // (2 * threads)))
    found = np.array(ends, np.intp)
    found.flags.writeable = False
    return found


def untaken() -> NDArray[np.intp]:
    """The counter (1,) of pieces, none of which has been taken: for one call."""
    return np.zeros(1, np.intp)

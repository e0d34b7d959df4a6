"""Whether a run over all rows stays within a time limit, extrapolated from runs over more and more rows.

The rows grow by GROWTH from run to run. The time of the full run is extrapolated from each run; from a short
one, which may have been delayed, only that of the next run. The first run of a size is ignored if it is long:
it may have compiled code or filled caches.
"""

from collections.abc import Callable
from math import inf
from time import perf_counter

GROWTH = 8
TRIES, LONG_S = 5, 0.1
ROWS_SHARE = 0.8  # of the rows that would just fit


class TooSlowError(ValueError):
    """A run over all rows would take `seconds`; `rows` would fit, or 0 where fewer rows may not help."""

    def __init__(self, seconds: float, limit_s: float, rows: int) -> None:
        left = f"over the {limit_s:.2g} s there are for it" if limit_s > 0 else "and no time is left for it"
        super().__init__(f"one run, forward and backward, takes about {seconds:.2g} s, {left}")
        self.seconds, self.rows = seconds, rows


def require_within_limit(run: Callable[[int], object], few: int, rows: int, limit_s: float) -> None:
    """TooSlowError where run(rows) would take longer than `limit_s`; run(few) is tried first."""
    while few < rows:
        its_s = seconds(lambda few=few: run(few), limit_s * few / rows, limit_s)
        expected_s, next_s = its_s * rows / few, its_s * min(GROWTH, rows / few)
        if expected_s > limit_s and (its_s > LONG_S or next_s > limit_s):
            fewer = int(ROWS_SHARE * rows * limit_s / expected_s)
            raise TooSlowError(expected_s, limit_s, fewer if fewer >= few else 0)
        few *= GROWTH


def seconds(run: Callable[[], object], enough_s: float, limit_s: float) -> float:
    """Of the shortest of some runs: TRIES where they are short, two where they are long.

    The last of them is one that lasts `enough_s` or less, or one over `limit_s`.
    """
    shortest_s = inf
    for tried in range(TRIES):
        started = perf_counter()
        run()
        shortest_s = min(shortest_s, perf_counter() - started)
        if shortest_s <= enough_s or shortest_s > limit_s or (tried and shortest_s > LONG_S):
            break
    return shortest_s

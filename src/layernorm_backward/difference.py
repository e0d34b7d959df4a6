"""When two times differ: the one rule by which anything here is called faster or slower than another.

Two times differ where the 95 % interval of their paired ratio leaves 1 out, and the ratio is further from 1
than the noise. The noise is the distance from 1 of a ratio that is 1 in truth: a stream timed against itself
(A/A), under two names, in the same repetitions. The interval covers the scatter of one cell's repetitions,
the noise what the machine does on top of it.
"""

from typing import NamedTuple


class Ratio(NamedTuple):
    """The median of paired ratios and its 95 % bootstrap interval."""

    median: float
    low: float
    high: float


def noise(of_itself: Ratio) -> float:
    """The noise of a cell, from the ratio of a stream to itself."""
    return abs(of_itself.median - 1)


def differs(ratio: Ratio, noise: float) -> bool:
    """Whether two times differ by the rule above; an interval that is not known (NaN) leaves it open: no."""
    excluded = ratio.low > 1 or ratio.high < 1
    return bool(excluded and abs(ratio.median - 1) > noise)

"""Times as they stand in tables, and when two differ: the one rule by which anything here is called faster.

Two times differ where the 95 % interval of their paired ratio leaves 1 out, and the ratio is further from 1
than the noise. The noise is the distance from 1 of a ratio that is 1 in truth: a stream timed against itself
(A/A), under two names, in the same repetitions. The interval covers the scatter of one cell's repetitions,
the noise what the machine does on top of it. One A/A ratio is a single draw of that, by chance too small in
many a cell; so in a table what USUAL of the cells alike stay below counts, too. Where there are FEW such
cells, that is not their quantile, which of one cell is its own noise: it is worked out from their root mean
square as for normal deviates about 0, of whose ratio to it Student's t tells.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from layernorm_backward.timing.median_interval import median_interval

USUAL = 0.9  # of the cells of a table have less noise than what counts for all
FEW = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833)  # of |t| for 1, 2, ... cells, at USUAL
ALIKE = ["threads", "residency"]  # columns: with the size, what noise depends on most


class Ratio(NamedTuple):
    """The median of paired ratios and its 95 % interval; NaN where it is not known."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, ratios: NDArray[np.float64], rounds: ArrayLike | None = None) -> "Ratio":
        """Of the ratio and round of each repetition, one or more; of few the interval is not known."""
        return cls(float(np.median(ratios)), *median_interval(ratios, rounds))

    def columns(self, name: str) -> dict[str, float]:
        """The columns `name`, `name`_low and `name`_high of a table."""
        return {name: self.median, f"{name}_low": self.low, f"{name}_high": self.high}


class Summary(NamedTuple):
    """Seconds a call: the median and the 20 % and 80 % quantiles of `repeats` repetitions."""

    median_s: float
    p20_s: float
    p80_s: float
    repeats: int

    @classmethod
    def of(cls, seconds: Sequence[float] | NDArray[np.float64]) -> "Summary":
        """Of the seconds of each repetition, one or more."""
        p20, median, p80 = map(float, np.quantile(seconds, [0.2, 0.5, 0.8]))
        return cls(median, p20, p80, len(seconds))


def noise(of_itself: Ratio) -> float:
    """The noise of a cell, from the ratio of a stream to itself."""
    return abs(of_itself.median - 1)


def differs(ratio: Ratio, noise: float) -> bool:
    """Whether two times differ by the rule above; an interval that is not known (NaN) leaves it open: no."""
    return bool(_apart(*ratio, noise))


def judged(table: pd.DataFrame, ratio: str, same: float = 1.0) -> pd.DataFrame:
    """A table of timed cells with its column `differs`: by each row's `noise` and that of the cells alike.

    Alike are cells of the same threads and residency whose arrays have `bytes` of one power of ten: a call of
    microseconds and a pass over megabytes, both in the cache, have little in common.
    ratio: the column whose interval is in `ratio`_low and `ratio`_high; same: its value for equal times. Rows
    of a cell have the noise of their repetitions; those without a time have none, and no `differs` either.
    """
    noise = table["noise"]
    decade = np.floor(np.log10(table["bytes"].astype(float)))
    usual = noise.groupby([decade, *(table[name] for name in ALIKE)], dropna=False).transform(_usual)
    columns = (table[ratio + end] for end in ("", "_low", "_high"))
    found = _apart(*columns, np.maximum(noise, usual), same)
    return table.assign(differs=found.where(table[ratio].notna()).astype("boolean"))


def _apart(median, low, high, noise, same=1.0):
    """The rule above, for numbers or columns."""
    return ((low > same) | (high < same)) & (abs(median - same) > noise)


def _usual(noise: pd.Series) -> float:
    cells = noise.drop_duplicates().dropna()
    if 0 < len(cells) <= len(FEW):
        return FEW[len(cells) - 1] * float(np.sqrt(np.mean(np.square(cells))))
    return cells.quantile(USUAL)

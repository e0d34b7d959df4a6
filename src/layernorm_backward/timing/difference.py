"""Summaries of times, and the rule that decides in all tables whether two times differ.

Two times differ if the 95 % interval of their paired ratio excludes 1, and the ratio is further from 1 than
the noise. The noise is the distance from 1 of an A/A ratio: a stream timed against itself, under two names,
in the same repetitions. The interval covers the scatter of one cell's repetitions, the noise the effects of
the machine beyond it. One A/A ratio is a single draw, which by chance is too small in many a cell; so in a
table the quantile USUAL of the noise of similar cells is a lower limit. For FEW such cells that quantile is
not estimated from order statistics, which for one cell would give its own noise, but from the root mean
square and Student's t, as for normal deviates about 0.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from layernorm_backward.timing.median_interval import median_interval

USUAL = 0.9  # the quantile of the noise of similar cells that is a lower limit for each of them
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
    """Seconds per call: the median and the 20 % and 80 % quantiles of `repeats` repetitions."""

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
    """Whether two times differ by the rule above; False where the interval is not known (NaN)."""
    return bool(_differs(*ratio, noise))


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
    found = _differs(*columns, np.maximum(noise, usual), same)
    return table.assign(differs=found.where(table[ratio].notna()).astype("boolean"))


def _differs(median, low, high, noise, same=1.0):
    """The rule above, for numbers or columns."""
    return ((low > same) | (high < same)) & (abs(median - same) > noise)


def _usual(noise: pd.Series) -> float:
    cells = noise.drop_duplicates().dropna()
    if 0 < len(cells) <= len(FEW):
        return FEW[len(cells) - 1] * float(np.sqrt(np.mean(np.square(cells))))
    return cells.quantile(USUAL)

"""The rows that have exact results, and what making the data costs in time and memory."""

import math
from time import perf_counter

from layernorm_backward.bench.setting import Deadline, Setting
from layernorm_backward.timing import sizing

BLOCK = 1 << 18  # elements drawn at random: their exact results take a tenth of a second
MOST = 1 << 21  # elements where rows are long: two seconds
SHORT, FEW_ROWS = 16, 64  # in shorter rows dx may be all but 0: the more rows, the worse the worst error
TOO_SHORT = 2, 3, 4  # dx may be so near 0 that a correct kernel has an error over the limit
LEAST_ROWS = 3  # so that other rows lie between a row and its repetition
EXACT_BYTES, EXACT_S = 160, 1e-6  # an element, at most
BRIEF_S = 0.5  # for the data, whatever is left
SHARE = 1 / 2  # of the seconds left, for the data


def block_rows(setting: Setting) -> int:
    """Rows that are drawn at random; all further rows repeat them."""
    most = FEW_ROWS if setting.hidden < SHORT else max(LEAST_ROWS, BLOCK // setting.hidden)
    return min(setting.rows, most)


def require_exact(setting: Setting) -> None:
    """ValueError where rows are too long for exact results, or too short to judge dx."""
    if setting.hidden in TOO_SHORT:
        said = "allowed: 1, or at least 5; in such rows dx is nearly 0, and correct kernels look wrong"
        raise ValueError(f"hidden is {setting.hidden}; {said}")
    free = max(0, sizing.memory_limit() - setting.arrays_bytes(setting.rows))
    longest = min(MOST, free // EXACT_BYTES) // min(setting.rows, LEAST_ROWS)
    if setting.hidden > longest:
        said = f"{EXACT_BYTES} bytes and up to a microsecond an element"
        raise ValueError(
            f"a row of {setting.hidden} is too long for exact results, which take {said}; "
            f"allowed here: --hidden up to {longest}"
        )


class DataBudget:
    """The seconds available for making the data; ValueError as soon as they turn out to be too few."""

    def __init__(self, setting: Setting, deadline: Deadline) -> None:
        self._setting, self._deadline = setting, deadline
        self._exact_s = EXACT_S * block_rows(setting) * setting.hidden
        self._allowed_s = max(BRIEF_S, SHARE * deadline.left())
        self._total, self._filled, self._filling_s = setting.arrays_bytes(setting.rows), 0, 0.0
        self._require(0.0)

    def filled(self, size: int, started: float) -> None:
        """So many bytes more of the arrays are written, since `started`."""
        self._filled += size
        self._filling_s += perf_counter() - started
        if self._exact_s + self._filling_s > BRIEF_S:
            self._require(self._filling_s * self._total / self._filled)

    def _require(self, filling_s: float) -> None:
        needed_s = self._exact_s + filling_s
        if needed_s <= self._allowed_s:
            return
        fewer = int(self._setting.rows * (self._allowed_s - self._exact_s) / filling_s) if filling_s else 0
        rows = f"about --rows {fewer}, or " if fewer >= block_rows(self._setting) else ""
        seconds = math.ceil(self._deadline.spent_s() + needed_s / SHARE)
        raise ValueError(
            f"making the data takes about {needed_s:.2g} s, over the {self._allowed_s:.2g} s there are for it"
            f"{self._deadline.told()}; allowed: {rows}--seconds {seconds}"
        )

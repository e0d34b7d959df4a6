"""How often each comparison runs in the available time, and how much memory is available."""

from collections.abc import Mapping

from layernorm_backward.bench.setting import Setting
from layernorm_backward.timing import memory

MOST_REPEATS = 200
SHORTEST_S = 1e-3  # a repetition of a call: the clock's minimum, and what lies around it
FIRST_SHARE = 1 / 3  # of the time; the roof comes first
SHARE = 0.75  # of the memory that is available beside the arrays, for kernels


def repetitions(costs_s: Mapping[str, float], seconds: float) -> int:
    """Repetitions of the first comparison, where one of each costs `costs_s` and all share `seconds`.

    Numbers as 1/sqrt(cost) make the sum of the variances of all means the smallest. The first gets at least
    FIRST_SHARE of the time; at least 1 repetition, at most MOST_REPEATS.
    """
    first, *_ = roots = [max(cost, SHORTEST_S) ** 0.5 for cost in costs_s.values()]
    share = max(first / sum(roots), FIRST_SHARE)
    return max(1, min(MOST_REPEATS, int(share * seconds / first**2)))


def available_bytes() -> float:
    """Bytes that one more kernel may take, beside the arrays and the kernels that there are already."""
    return SHARE * memory.available()


def fitting_rows(setting: Setting, needed: float) -> int:
    """The rows at which a kernel that needs so many bytes beside the arrays of all rows would fit."""
    whole = setting.arrays_bytes(setting.rows)
    return int(setting.rows * (available_bytes() + whole) / (whole + needed))

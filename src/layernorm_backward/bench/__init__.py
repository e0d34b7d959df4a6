"""`bench(kernel, setting, deadline)` times a layer normalization within a time limit.

It runs beside copy or triad on the same arrays, its roof, and beside three kernels of ours. Each comparison
is paired and interleaved, and compared with the noise of a stream timed against itself beside the roof.
"""

from collections.abc import Callable

import pandas as pd

from layernorm_backward import stopwatch
from layernorm_backward.bench.block import DataBudget, require_exact
from layernorm_backward.bench.checked import WrongError
from layernorm_backward.bench.contenders import baselines, prepare_all, require_still_correct
from layernorm_backward.bench.data import draw
from layernorm_backward.bench.setting import Deadline, Setting
from layernorm_backward.bench.timed import time_direction
from layernorm_backward.kernels import Kernel
from layernorm_backward.options import require_memory
from layernorm_backward.records.tabulate import table
from layernorm_backward.timing import cell_roof

__all__ = ["Deadline", "Setting", "WrongError", "bench", "steps"]

LEAST = 0.05  # of all seconds: for timing, where compiling took longer than there was time
RESERVE = 0.05  # of the seconds left: for runs that take longer than the first


def bench(
    kernel: Kernel,
    setting: Setting,
    deadline: Deadline,
    tick: Callable[[str], None] = lambda what: None,
) -> pd.DataFrame:
    """The table `bench`; `tick` is called with the name of each step, at most `steps` times.

    ValueError where the kernel cannot be timed in this setting, WrongError where its results are wrong.
    """
    require_memory(setting.rows, setting.hidden, setting.arrays_bytes(1) // setting.hidden)
    require_exact(setting)
    tick("arrays")
    data = draw(setting, DataBudget(setting, deadline))
    deadline.note("making the data")
    rows = []
    with stopwatch.threads(setting.threads):
        for direction in setting.directions:
            cell_roof.load(direction, data.arrays)
        found = prepare_all(kernel, setting, data, deadline, tick)
        own = found.ready[kernel.name]
        for number, direction in enumerate(setting.directions):
            left_s = max(deadline.left() - own.check_s, LEAST * setting.seconds)
            share = (1 - RESERVE) * left_s / (len(setting.directions) - number)
            rows += time_direction(kernel.name, direction, setting, data, found, Deadline(share), tick)
        require_still_correct(kernel.name, own, setting)
    return table(rows, "bench")


def steps(kernel: Kernel, setting: Setting) -> int:
    """How often `tick` is called, where nothing is left out."""
    each = 1 + len(baselines(kernel.name))
    return 1 + each + len(setting.directions) * each

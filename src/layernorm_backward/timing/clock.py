"""One sample of a call: seconds per run, and how long the process was in the run queue meanwhile.

Separate from `stopwatch`, so that a process which only runs and times calls loads no libraries for it.
"""

import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

Call = Callable[[], object]
_TASKS = Path("/proc/self/task")


def sample(call: Call, loops: int, lead: int) -> tuple[float, int, float]:
    """Seconds per run, number of runs, seconds in the run queue; `lead` untimed runs come first."""
    elapsed(call, lead)
    before = run_queue_s()
    seconds = elapsed(call, loops)
    return seconds / loops, loops, run_queue_s() - before


def elapsed(call: Call, loops: int) -> float:
    """Seconds that `loops` runs of a call take."""
    rounds = range(loops)
    started = perf_counter()
    for _ in rounds:
        call()
    return perf_counter() - started


def run_queue_s() -> float:
    """Seconds that this process's threads have spent in the run queue; NaN where that is not known.

    A Linux without these statistics reports a running time of 0, too. This is called between the untimed and
    the timed runs of a call, so it must be fast.
    """
    fields = [_schedstat(f"{_TASKS}/{task}/schedstat") for task in _tasks()]
    ran, waited = (sum(int(of_task[place]) for of_task in fields if of_task) for place in (0, 1))
    return waited / 1e9 if ran else float("nan")


def _tasks() -> list[str]:
    try:
        return os.listdir(_TASKS)  # noqa: PTH208, pathlib takes twice the time
    except OSError:
        return []


def _schedstat(path: str) -> list[bytes]:
    """The scheduler statistics of a thread; empty for one that has ended."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123, as above
            return file.read().split()
    except OSError:
        return []

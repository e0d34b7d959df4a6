"""One sample of a call: seconds a run, and how long the process stood ready without a core meanwhile.

Kept apart from `stopwatch`, so that a process which only runs and times loads no library for it.
"""

import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

Call = Callable[[], object]
_TASKS = Path("/proc/self/task")


def sample(call: Call, loops: int, lead: int) -> tuple[float, int, float]:
    """Seconds a run, runs, and seconds in the run queue during them; `lead` untimed runs come first."""
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
    """Seconds that this process's threads have stood in the run queue; NaN where the system does not tell.

    A Linux that does not count says that none has run, either. It is read between the untimed runs of a call
    and the timed ones, so by the shortest way.
    """
    told = [_told(f"{_TASKS}/{task}/schedstat") for task in _tasks()]
    ran, waited = (sum(int(of_task[place]) for of_task in told if of_task) for place in (0, 1))
    return waited / 1e9 if ran else float("nan")


def _tasks() -> list[str]:
    try:
        return os.listdir(_TASKS)  # noqa: PTH208, paths take twice the time
    except OSError:
        return []


def _told(path: str) -> list[bytes]:
    """The numbers of a thread; none of one that ended."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123, as above
            return file.read().split()
    except OSError:
        return []

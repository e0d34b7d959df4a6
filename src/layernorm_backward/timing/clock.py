"""One sample of a call: seconds a run, and how long the process stood ready without a core meanwhile.

Kept apart from `stopwatch`, so that a process which only runs and times loads no library for it.
"""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from layernorm_backward.host.system_files import contents

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

    A Linux that does not count says that none has run, either.
    """
    told = [contents(task / "schedstat").split() for task in _TASKS.glob("*")]  # "" of one that ended
    ran, waited = (sum(int(of_task[place]) for of_task in told if of_task) for place in (0, 1))
    return waited / 1e9 if ran else float("nan")

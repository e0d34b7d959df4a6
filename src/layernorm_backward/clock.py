"""One sample of a call: seconds a run, and how long the process stood ready without a core meanwhile.

Kept apart from `stopwatch`, so that a process which only runs and times loads no library for it.
"""

from collections.abc import Callable
from contextlib import suppress
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
    """Seconds that this process's threads have stood in the run queue; NaN where the system is not Linux."""
    if not _TASKS.exists():
        return float("nan")
    total = 0
    for task in _TASKS.iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread may end meanwhile
            total += int((task / "schedstat").read_text(encoding="ascii").split()[1])
    return total / 1e9

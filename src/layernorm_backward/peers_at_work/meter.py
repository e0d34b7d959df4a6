"""A timed call with its CPU time and page faults, and the CPU time between its samples."""

from collections.abc import Callable
from time import perf_counter, process_time, sleep
from typing import NamedTuple

from layernorm_backward.peers_at_work.protocol import Sample, Usage
from layernorm_backward.timing import clock

try:
    from resource import RUSAGE_SELF, getrusage
except ImportError:  # page faults cannot be counted on this system
    getrusage = None

STILL = 0.05  # of a core: a process below this counts as idle
WINDOW_S = 0.002
LONGEST_S = 0.5


class _State(NamedTuple):
    wall_s: float
    processor_s: float
    faults: int


class Meter:
    """Runs a call for the stopwatch (`sample`) and accumulates its usage.

    After each sample it waits until the threads of the process are idle: OpenMP threads spin for milliseconds
    in case more work comes, which would disturb the next process to run.
    """

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._runs = 0
        self._busy = self._idle = _State(0.0, 0.0, 0)
        self._last = _state()

    def __call__(self) -> object:
        return self._call()

    def sample(self, loops: int, lead: int) -> Sample:
        """Seconds per run of `loops` runs, after `lead` untimed ones."""
        before = _state()
        self._idle = _add(self._idle, self._last, before)
        found = Sample(*clock.sample(self._call, loops, lead))
        self._busy = _add(self._busy, before, _state())
        self._runs += loops + lead
        rest()
        self._last = _state()
        return found

    def usage(self) -> Usage:
        """The usage of all samples; NaN where there were none."""
        busy, idle = self._busy, self._idle
        return Usage(
            _share(busy.processor_s, busy.wall_s),
            _share(busy.faults, self._runs) if getrusage else float("nan"),
            _share(idle.processor_s, idle.wall_s),
        )


def rest() -> None:
    """Wait until this process is idle, for half a second at most."""
    deadline = perf_counter() + LONGEST_S
    while perf_counter() < deadline:
        used = process_time()
        sleep(WINDOW_S)
        if process_time() - used < STILL * WINDOW_S:
            return


def _state() -> _State:
    faults = getrusage(RUSAGE_SELF).ru_minflt if getrusage else 0
    return _State(perf_counter(), process_time(), faults)


def _add(total: _State, before: _State, after: _State) -> _State:
    return _State(*(a + c - b for a, b, c in zip(total, before, after, strict=True)))


def _share(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")

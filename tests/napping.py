"""A clock that stands still while this process does not run: other work on the machine does not move it."""

import sys
import time

import pytest

PACKAGE = "layernorm_backward"


class Napping:
    """CPU seconds of this thread, plus the seconds of its naps, which take no time."""

    def __init__(self) -> None:
        self.napped_s = 0.0

    def __call__(self) -> float:
        return time.thread_time() + self.napped_s

    def nap(self, seconds: float) -> None:
        self.napped_s += seconds


def napping(patch: pytest.MonkeyPatch) -> Napping:
    """The clock of the package's modules and of its deadlines; `time.sleep` moves it at once."""
    from layernorm_backward.bench.command import Deadline  # with all modules that read a clock

    naps = Napping()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == PACKAGE and vars(module).get("perf_counter") is time.perf_counter:
            patch.setattr(module, "perf_counter", naps)
    clock, *others = Deadline.__init__.__defaults__
    assert clock is time.perf_counter
    patch.setattr(Deadline.__init__, "__defaults__", (naps, *others))
    patch.setattr(time, "sleep", naps.nap)
    return naps

"""How many runs of a call make a sample, and how many untimed runs come first.

The first run wakes idle threads. Where the arrays fit into a cache, it takes several runs to evict what other
calls left there: on a Xeon, a pass with ordinary stores after one with non-temporal stores reaches its final
speed at the fifth run, and the two runs before take a third longer.
"""

from typing import NamedTuple

import numpy as np

from layernorm_backward.timing import clock
from layernorm_backward.timing.clock import Call

LONG_S = 0.02  # for longer calls the start does not matter: no untimed runs, and no second try
SETTLED = 5  # untimed runs, as far as they fit into LONG_S
TRIES = 3
TICK_S = 1e-9  # no run is shorter, whatever a coarse clock says


class Pace(NamedTuple):
    """How many runs make a sample of a call, and the least seconds per run so far."""

    loops: int
    run_s: float

    def sample(self, call: Call) -> tuple[float, int, float]:
        """As `clock.sample`; a call in another process has its own `sample`, which uses the clock there."""
        own = getattr(call, "sample", None)
        how = self.loops, untimed(self.run_s)
        return own(*how) if own else clock.sample(call, *how)

    def after(self, seconds: float, minimum_s: float) -> "Pace":
        """The pace after a run of this duration: `loops` is doubled until a sample is long enough."""
        loops, run_s = self.loops, min(self.run_s, max(seconds, TICK_S))
        while loops * run_s < minimum_s:
            loops *= 2
        return Pace(loops, run_s)


def calibrated(call: Call, minimum_s: float) -> Pace:
    """The pace of a call of unknown duration, by doubling, after a run that may load and wake things."""
    _elapsed(call, 1)
    loops, taken_s = 1, _tried(call, 1)
    while taken_s < minimum_s:
        loops *= 2
        taken_s = _tried(call, loops)
    return Pace(loops, taken_s / loops)


def untimed(seconds: float) -> int:
    """The number of untimed runs before each sample of a call of this duration."""
    return min(SETTLED, int(LONG_S / max(seconds, TICK_S)))


def _tried(call: Call, loops: int) -> float:
    """Seconds that `loops` runs take: the least of TRIES, or of those up to the first long one."""
    fastest_s = np.inf
    for _ in range(TRIES):
        fastest_s = min(fastest_s, _elapsed(call, loops))
        if fastest_s > LONG_S:
            break
    return fastest_s


def _elapsed(call: Call, loops: int) -> float:
    """Seconds that `loops` runs take, without the communication with another process."""
    own = getattr(call, "sample", None)
    return own(loops, 0)[0] * loops if own else clock.elapsed(call, loops)

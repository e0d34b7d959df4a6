"""How many runs of a call make a sample of it, and how many untimed ones come first.

The first run wakes threads that rested. Where the arrays stay in a cache, what other calls left there takes
several runs to go: after a pass with non-temporal stores, one with ordinary stores is on a Xeon as fast as it
stays from the fifth run on, and the two before took a third longer.
"""

from typing import NamedTuple

import numpy as np

from layernorm_backward.timing import clock
from layernorm_backward.timing.clock import Call

LONG_S = 0.02  # longer calls do not notice how they begin: they are neither run untimed nor tried again
SETTLED = 5  # untimed runs, as far as they fit into LONG_S
TRIES = 3
TICK_S = 1e-9  # no run is shorter, whatever a coarse clock says


class Pace(NamedTuple):
    """How many runs make a sample of a call, and the least seconds that one of them has taken."""

    loops: int
    run_s: float

    def sample(self, call: Call) -> tuple[float, int, float]:
        """As `clock.sample`; a call in another process brings its own `sample`, by the clock there."""
        own = getattr(call, "sample", None)
        how = self.loops, untimed(self.run_s)
        return own(*how) if own else clock.sample(call, *how)

    def after(self, seconds: float, minimum_s: float) -> "Pace":
        """The pace once a run has taken so many seconds: by doubling, until a sample is not too short."""
        loops, run_s = self.loops, min(self.run_s, max(seconds, TICK_S))
        while loops * run_s < minimum_s:
            loops *= 2
        return Pace(loops, run_s)


def tried_out(call: Call, minimum_s: float) -> Pace:
    """The pace of a call of which nothing is known: by doubling, after a run that may load or wake things."""
    _elapsed(call, 1)
    loops, taken_s = 1, _tried(call, 1)
    while taken_s < minimum_s:
        loops *= 2
        taken_s = _tried(call, loops)
    return Pace(loops, taken_s / loops)


def untimed(seconds: float) -> int:
    """Runs of a call that lasts so many seconds before each of its samples."""
    return min(SETTLED, int(LONG_S / max(seconds, TICK_S)))


def _tried(call: Call, loops: int) -> float:
    """Seconds that `loops` runs take: of TRIES the fastest counts, or the first that is long."""
    fastest_s = np.inf
    for _ in range(TRIES):
        fastest_s = min(fastest_s, _elapsed(call, loops))
        if fastest_s > LONG_S:
            break
    return fastest_s


def _elapsed(call: Call, loops: int) -> float:
    """Seconds that `loops` runs take, without what it takes to ask another process for them."""
    own = getattr(call, "sample", None)
    return own(loops, 0)[0] * loops if own else clock.elapsed(call, loops)

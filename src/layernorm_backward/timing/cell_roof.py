"""The roof of a cell: copy and triad on the same arrays that the kernels are timed on, and the cell's noise.

    forward    copy y = x              2 useful accesses an element
    backward   triad dx = x + s*dy     3
    both       the copy, then the triad

Each with ordinary and with non-temporal stores, line after line; the faster is the roof. The stream that
prefetches from several pages in turn (`in_pages`) may exceed it where lines come from memory. The one
expected to be the roof runs a second time, under its name and AGAIN: the ratio of the two is 1 but for the
noise of the machine.
"""

from collections.abc import Callable, Mapping

import pandas as pd

from layernorm_backward import roofs, stopwatch
from layernorm_backward.directions import AnyDirection
from layernorm_backward.timing import difference
from layernorm_backward.timing.pool import Buffers

ROOFS: dict[AnyDirection, tuple[str, str]] = {
    "forward": ("copy", "copy_nt"),
    "backward": ("triad", "triad_nt"),
    "both": ("copy_triad", "copy_triad_nt"),
}
AGAIN, IN_PAGES = "_again", "_pages"
SLOWER = 1.25  # times the time of the fastest stream: a stream that takes longer cannot be the roof

Call = Callable[[], object]


def streams(direction: AnyDirection, arrays: Buffers) -> dict[str, Call]:
    """The streams that can run here, by name: ordinary stores first."""
    names = [name for name in ROOFS[direction] if not roofs.missing(name)]
    return {name: _call(direction, arrays, "_nt" if name.endswith("_nt") else "") for name in names}


def load(direction: AnyDirection, arrays: Buffers) -> None:
    """Run each stream on the first row, so that its code is compiled or loaded in no measurement."""
    for call in streams(direction, arrays.first_rows(1)).values():
        call()


def in_pages(direction: AnyDirection, arrays: Buffers, residency: str) -> dict[str, Call]:
    """The stream that reads several pages in turn, where it can run and the arrays lie in memory."""
    name = ROOFS[direction][0] + IN_PAGES
    if residency != "memory" or roofs.missing(name):
        return {}
    return {name: _call(direction, arrays, IN_PAGES)}


def with_noise(calls: Mapping[str, Call], residency: str) -> dict[str, Call]:
    """The streams, and the one expected to be fastest a second time: non-temporal, except in the cache."""
    ordinary, *past_the_cache = calls
    expected = past_the_cache[0] if past_the_cache and residency != "cache" else ordinary
    return dict(calls) | {expected + AGAIN: calls[expected]}


def contenders(calls: Mapping[str, Call], before_s: Mapping[str, float]) -> dict[str, Call]:
    """The calls of `with_noise`, without a stream that cannot be the roof by its time in earlier rounds.

    before_s: seconds by name, empty in the first round. The one that runs twice stays.
    """
    most_s = SLOWER * min((before_s[name] for name in calls if name in before_s), default=float("inf"))
    twice = {name for name in calls if name + AGAIN in calls or name.endswith(AGAIN)}
    return {name: call for name, call in calls.items() if name in twice or before_s.get(name, 0) <= most_s}


def fastest(samples: pd.DataFrame, direction: AnyDirection) -> str:
    """The stream that is the roof."""
    return stopwatch.fastest(samples, [name for name in ROOFS[direction] if name in set(samples["name"])])


def paged(samples: pd.DataFrame, direction: AnyDirection) -> str:
    """The stream of `in_pages`; "" where it did not run."""
    name = ROOFS[direction][0] + IN_PAGES
    return name if name in set(samples["name"]) else ""


def noise(samples: pd.DataFrame) -> float:
    """The cell's noise, as `difference` defines it."""
    again = next(name for name in samples["name"] if name.endswith(AGAIN))
    return difference.noise(stopwatch.ratio(samples, again, again.removesuffix(AGAIN)))


def _call(direction: AnyDirection, arrays: Buffers, suffix: str) -> Call:
    if direction == "forward":
        return roofs.stream("copy" + suffix, arrays.y, arrays.x)
    triad = roofs.stream("triad" + suffix, arrays.out, arrays.x, arrays.dy)
    if direction == "backward":
        return triad
    copy = roofs.stream("copy" + suffix, arrays.y, arrays.x)

    def both() -> None:
        copy()
        triad()

    return both

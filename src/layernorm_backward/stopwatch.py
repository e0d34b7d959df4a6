"""Paired, interleaved timing: a repetition runs every call once, in a shuffled order.

A slowdown of the machine then affects all calls alike, and cancels in the ratio of two calls, which is taken
within a repetition. A sample follows untimed runs of the same call (`pace`), which wake idle threads and
bring the caches into their steady state. Every repetition is kept. A call that lasts longer than all others
together runs in the first repetitions only. Calls that are too short for the clock are repeated within a
sample; the garbage collector is off, and freed memory stays in the process (`allocator`).

On Linux each sample also holds how long the threads of this process were in the run queue, ready but without
a core (/proc/self/task/*/schedstat); `waited` marks the samples where that is more than WAITED of the sample.
Repetitions with a marked sample stay in the table of samples, but are excluded from medians and ratios unless
fewer than half of all, or fewer than FEWEST, would remain.
"""

import gc
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from time import perf_counter
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from layernorm_backward.timing import allocator
from layernorm_backward.timing.clock import Call
from layernorm_backward.timing.difference import Ratio, Summary
from layernorm_backward.timing.median_interval import FEWEST
from layernorm_backward.timing.pace import Pace, calibrated

WAITED = 0.05


def compare(
    calls: Mapping[str, Call],
    *,
    repeats: int,
    seed: int,
    at_least: int | None = None,
    budget_s: float = float("inf"),
    minimum_s: float = 2e-4,
    known_s: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """Time all `calls` against each other; one row per sample: name, repeat, seconds, calls, wait_s, waited.

    Each call runs in each of `repeats` repetitions. After `at_least` of them (default: all), whether or not
    they count, a call that has used half of `budget_s` seconds is dropped if there are others; timing ends
    when the remaining calls have used all of the budget. A sample holds `calls` runs; `seconds` is per run.
    How many runs make a sample of `minimum_s` seconds is found by trial, after an untimed run, except for
    calls known to last far longer (`known_s`, seconds per run); if a sample is too short, the next ones have
    more runs. NumPy's handling of floating-point errors is restored afterwards.
    """
    at_least = repeats if at_least is None else min(at_least, repeats)
    shuffle = np.random.default_rng(seed)
    share_s = budget_s / min(len(calls), 2)
    allocator.keep_freed()
    with _collector_off(), np.errstate():
        long = {name: its for name, its in (known_s or {}).items() if its > 10 * minimum_s}
        paces = {
            name: Pace(1, long[name]) if name in long else calibrated(call, minimum_s)
            for name, call in calls.items()
        }
        samples, spent_s = [], dict.fromkeys(calls, 0.0)
        for repeat in range(repeats):
            left = [name for name in calls if repeat < at_least or spent_s[name] <= share_s]
            if repeat >= at_least and sum(spent_s[name] for name in left) > budget_s:
                break
            for name in shuffle.permutation(np.array(left, dtype=object)).tolist():
                started = perf_counter()
                samples.append((name, repeat, *paces[name].sample(calls[name])))
                paces[name] = paces[name].after(samples[-1][2], minimum_s)
                spent_s[name] += perf_counter() - started
    columns = ["name", "repeat", "seconds", "calls", "wait_s"]
    table = pd.DataFrame(samples, columns=columns)
    return table.assign(waited=table["wait_s"] > WAITED * table["seconds"] * table["calls"])


def summary(samples: pd.DataFrame, name: str) -> Summary:
    """Median and quantiles of one call."""
    (its,) = _usable(samples, name)
    return Summary.of(its.seconds)


def fastest(samples: pd.DataFrame, names: Sequence[str]) -> str:
    """The call with the smallest median, over the repetitions that count for all of them.

    Medians over different repetitions would compare calls in different states of the machine.
    """
    medians_s = [np.median(its.seconds) for its in _usable(samples, *names)]
    return names[int(np.argmin(medians_s))]


def ratio(samples: pd.DataFrame, numerator: str, denominator: str) -> Ratio:
    """The ratio time(numerator) / time(denominator), paired by repetition; uses the column `round` if any."""
    if numerator == denominator:
        return Ratio(1.0, 1.0, 1.0)
    above, below = _usable(samples, numerator, denominator)
    rounds = samples["round"].to_numpy()[above.index] if "round" in samples else None
    return Ratio.of(above.seconds / below.seconds, rounds)


def counted(waited: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which repetitions count, shape (repetitions,); `waited` (calls, repetitions) marks calls that waited.

    Those in which no call waited; all, where fewer than half or fewer than FEWEST would remain.
    """
    clean = ~waited.any(axis=0)
    return clean if clean.sum() >= max(FEWEST, len(clean) / 2) else np.ones_like(clean)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """In this context BLAS, and Numba if loaded, use `count` threads; the settings are restored afterwards.

    ValueError for an impossible count, and where Numba's was changed inside, which invalidates the times.
    """
    numba = sys.modules.get("numba")
    most = numba.config.NUMBA_NUM_THREADS if numba else count
    if not 1 <= count <= most:
        raise ValueError(f"threads is {count}; allowed: 1 to {most}")
    before = numba.get_num_threads() if numba else None
    with threadpool_limits(limits=count):
        if numba:
            numba.set_num_threads(count)
        try:
            yield
            if numba and (found := numba.get_num_threads()) != count:
                said = f"a kernel has set Numba's threads to {found}, while {count} were timed"
                raise ValueError(f"{said}; allowed: kernels that leave them as they are")
        finally:
            if numba:
                numba.set_num_threads(before)


class _Usable(NamedTuple):
    """Seconds of a call by repetition, and their row numbers in the samples."""

    seconds: NDArray[np.float64]
    index: NDArray[np.intp]


def _usable(samples: pd.DataFrame, *names: str) -> list[_Usable]:
    """For each name, its samples in the repetitions that hold all names and that count."""
    columns = ("name", "repeat", "seconds", "waited")
    name, repeat, seconds, waited = (samples[column].to_numpy() for column in columns)
    missing = sorted(set(names) - set(name))
    if missing:
        raise ValueError(f"no samples of {missing}; there are: {sorted(set(name))}")
    shared = reduce(np.intersect1d, (repeat[name == wanted] for wanted in names))
    held = [np.flatnonzero((name == wanted) & np.isin(repeat, shared)) for wanted in names]
    kept = counted(np.array([waited[its] for its in held]))
    return [_Usable(seconds[its[kept]], its[kept]) for its in held]


@contextmanager
def _collector_off() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

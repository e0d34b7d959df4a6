"""Paired, interleaved timing: every repetition runs every call once, in a shuffled order.

A slow spell of the machine then falls on all calls alike, and the ratio of two calls is taken within a
repetition, where it cancels. Every repetition is kept. Calls that are too short for the clock are repeated
within a sample; the garbage collector is off. On Linux each sample also holds how long the threads of this
process stood in the run queue, ready but without a core (/proc/self/task/*/schedstat); `waited` marks the
samples where that is more than WAITED of the sample. Repetitions with a marked sample stay in the table of
samples, and are left out of medians and ratios unless fewer than half of all would remain.
"""

import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from threadpoolctl import threadpool_limits

Call = Callable[[], object]
WAITED = 0.05
_TASKS = Path("/proc/self/task")


class Summary(NamedTuple):
    """Seconds a call: the median and the 20 % and 80 % quantiles of `repeats` repetitions."""

    median_s: float
    p20_s: float
    p80_s: float
    repeats: int


class Ratio(NamedTuple):
    """The median of paired ratios and its 95 % bootstrap interval."""

    median: float
    low: float
    high: float


def compare(
    calls: Mapping[str, Call],
    *,
    repeats: int,
    seed: int,
    at_least: int | None = None,
    budget_s: float = float("inf"),
    warmup: int = 1,
    lead: int = 0,
    minimum_s: float = 2e-4,
) -> pd.DataFrame:
    """Time all `calls` against each other; one row a sample: name, repeat, seconds, calls, wait_s, waited.

    Each call runs `warmup` times untimed, then in each of `repeats` repetitions; after `at_least`
    repetitions (default: all) it ends when `budget_s` seconds have passed. `lead` untimed runs precede each
    sample, so that it meets its own arrays in the cache. A sample lasts at least `minimum_s` seconds and
    holds `calls` runs; `seconds` is for one run.
    """
    at_least = repeats if at_least is None else min(at_least, repeats)
    shuffle = np.random.default_rng(seed)
    with _collector_off():
        loops = {name: _loops(call, warmup, minimum_s) for name, call in calls.items()}
        started, samples = perf_counter(), []
        for repeat in range(repeats):
            if repeat >= at_least and perf_counter() - started > budget_s:
                break
            for name in shuffle.permutation(list(calls)).tolist():
                samples.append((name, repeat, *_sample(calls[name], loops[name], lead)))
    columns = ["name", "repeat", "seconds", "calls", "wait_s"]
    table = pd.DataFrame(samples, columns=columns)
    return table.assign(waited=table["wait_s"] > WAITED * table["seconds"] * table["calls"])


def summary(samples: pd.DataFrame, name: str) -> Summary:
    """Median and quantiles of one call."""
    seconds = _usable(samples, [name])[name]
    p20, median, p80 = np.quantile(seconds, [0.2, 0.5, 0.8])
    return Summary(float(median), float(p20), float(p80), len(seconds))


def ratio(samples: pd.DataFrame, numerator: str, denominator: str, seed: int) -> Ratio:
    """Median over the repetitions of time(numerator) / time(denominator), with a 95 % interval.

    Percentile bootstrap of 2000 resamples: the acceleration of the BCa method is found by a jackknife,
    which is not consistent for a median (Efron 1979). One repetition has no interval (NaN).
    """
    seconds = _usable(samples, [numerator, denominator])
    ratios = (seconds[numerator] / seconds[denominator]).to_numpy()
    if len(ratios) < 2 or numerator == denominator:
        low = high = float("nan") if len(ratios) < 2 else 1.0
        return Ratio(float(np.median(ratios)), low, high)
    found = stats.bootstrap(
        (ratios,), np.median, n_resamples=2000, method="percentile", rng=np.random.default_rng(seed)
    )
    return Ratio(float(np.median(ratios)), *map(float, found.confidence_interval))


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let BLAS, and Numba where it is loaded, use `count` threads; what was set before comes back after."""
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
        finally:
            if numba:
                numba.set_num_threads(before)


def _usable(samples: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Seconds by repetition (rows) and name (columns), without repetitions in which one of them waited."""
    chosen = samples[samples["name"].isin(names)]
    missing = sorted(set(names) - set(chosen["name"]))
    if missing:
        raise ValueError(f"no samples of {missing}; there are: {sorted(set(samples['name']))}")
    seconds = chosen.pivot(index="repeat", columns="name", values="seconds")
    clean = seconds[~chosen.groupby("repeat")["waited"].any()]
    return clean if 2 * len(clean) >= len(seconds) else seconds


def _loops(call: Call, warmup: int, minimum_s: float) -> int:
    """How many runs make a sample of `minimum_s` seconds, found by doubling after `warmup` runs."""
    _elapsed(call, warmup)
    loops = 1
    while _elapsed(call, loops) < minimum_s:
        loops *= 2
    return loops


def _sample(call: Call, loops: int, lead: int) -> tuple[float, int, float]:
    """Seconds a run, runs, and seconds in the run queue during them."""
    _elapsed(call, lead)
    before = _run_queue_s()
    seconds = _elapsed(call, loops)
    return seconds / loops, loops, _run_queue_s() - before


def _elapsed(call: Call, loops: int) -> float:
    rounds = range(loops)
    started = perf_counter()
    for _ in rounds:
        call()
    return perf_counter() - started


def _run_queue_s() -> float:
    """Seconds that this process's threads have stood in the run queue; NaN where the system is not Linux."""
    if not _TASKS.exists():
        return float("nan")
    delays = (int((task / "schedstat").read_text().split()[1]) for task in _TASKS.iterdir())
    return sum(delays) / 1e9


@contextmanager
def _collector_off() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

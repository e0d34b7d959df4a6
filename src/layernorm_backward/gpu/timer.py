"""Paired, interleaved timing on a device: a repetition runs every call once, in a shuffled order.

Device work is timed by events on the stream. `cold`: before each sample, the L2 cache is filled with other
data, all clean. Otherwise a sample directly follows the one before: it includes the write-back of the dirty
lines which that one left, at most the size of the cache, and leaves its own to the next sample. The order is
shuffled, so that this falls on all calls alike. A call with streams of its own (`wait`) is timed by the host
clock: several calls, until their work is done.
"""

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import NamedTuple

import numpy as np
import pandas as pd

from layernorm_backward.gpu.board import Board, Call
from layernorm_backward.timing.difference import Ratio, Summary

CALLS = 32  # calls of a sample by the host clock, so that launches overlap with the work before
BEYOND = 4  # times the L2 cache: larger arrays count as lying in memory
COLUMNS = ("name", "repeat", "seconds")


class Timed(NamedTuple):
    """A call, and a function that waits for its work where events on the board's stream do not see it."""

    call: Call
    wait: Callable[[], None] | None = None


def compare(
    board: Board,
    calls: Mapping[str, Timed],
    *,
    repeats: int,
    at_least: int,
    budget_s: float,
    seed: int,
    cold: bool,
) -> pd.DataFrame:
    """One row per sample: name, repeat, seconds. Fewer than `repeats` if they would exceed `budget_s`.

    `cold`: the L2 cache is filled with other data before each sample; else once before each repetition, so
    that the device is at work while the first call is launched.
    """
    shuffle = np.random.default_rng(seed)
    samples: list[tuple[str, int, float]] = []
    for timed in calls.values():
        _sample(board, timed, cold)()
    started = perf_counter()
    for repeat in range(repeats):
        if repeat >= at_least and perf_counter() - started > budget_s:
            break
        if not cold:
            board.flush()
        names = shuffle.permutation(np.array(list(calls), dtype=object)).tolist()
        taken = [(name, _sample(board, calls[name], cold)) for name in names]
        samples += [(name, repeat, seconds()) for name, seconds in taken]
    return pd.DataFrame(samples, columns=list(COLUMNS))


def _sample(board: Board, timed: Timed, cold: bool) -> Callable[[], float]:
    """Runs a call; returns a function that waits for its work and gives the seconds."""
    if cold:
        board.flush()
    if timed.wait:
        board.synchronize()
        started = perf_counter()
        for _ in range(CALLS):
            timed.call()
        timed.wait()
        seconds = (perf_counter() - started) / CALLS
        board.flush()  # the next call is launched while the device works
        return lambda: seconds
    begin = board.mark()
    timed.call()
    end = board.mark()
    return lambda: board.seconds(begin, end)


def summary(samples: pd.DataFrame, name: str) -> Summary:
    """Median and quantiles of one call."""
    return Summary.of(_seconds(samples, name))


def ratio(samples: pd.DataFrame, numerator: str, denominator: str) -> Ratio:
    """The ratio time(numerator) / time(denominator), paired by repetition."""
    return Ratio.of(_seconds(samples, numerator) / _seconds(samples, denominator))


def _seconds(samples: pd.DataFrame, name: str) -> np.ndarray:
    found = samples.loc[samples["name"] == name].sort_values("repeat")["seconds"].to_numpy()
    if not len(found):
        raise ValueError(f"no samples of {name!r}; there are: {sorted(set(samples['name']))}")
    return found

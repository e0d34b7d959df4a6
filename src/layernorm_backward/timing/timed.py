"""Helpers of the timed experiments: thread counts, columns of times, samples with their keys."""

from collections.abc import Iterable
from typing import Any, Literal
from zlib import crc32

import pandas as pd
from numba import config as numba_config

from layernorm_backward import machine
from layernorm_backward.stopwatch import summary

ThreadCount = int | Literal["all"]


def most_threads() -> int:
    """The threads that "all" stands for: the usable cores, or fewer where Numba is held to fewer."""
    return min(machine.usable_cores(), numba_config.NUMBA_NUM_THREADS)


def allowed_threads() -> str:
    """The possible numbers of threads, as text for an error message."""
    held = " (NUMBA_NUM_THREADS)" if _held() else ""
    return f"1 to {most_threads()}{held}, or all"


def _held() -> bool:
    """Whether Numba is held to fewer threads than there are usable cores."""
    return machine.usable_cores() > numba_config.NUMBA_NUM_THREADS


def thread_counts(wanted: Iterable[ThreadCount]) -> list[int]:
    """The thread counts in a config, "all" resolved, each once, in order; ValueError for one below 1."""
    counts = [most_threads() if count == "all" else count for count in wanted]
    if any(count < 1 for count in counts):
        raise ValueError(f"threads is {list(wanted)}; allowed: whole numbers from 1, or all")
    return sorted(set(counts))


def seed_of(seed: int, *cell: object) -> int:
    """The seed for the order of calls in one cell, whose keys have the same text in each run.

    In one order for all cells, whoever comes behind a certain other call would do so in each of them.
    """
    return crc32(repr((seed, *cell)).encode())


def too_many(threads: int) -> str:
    """Why a thread count is not possible here; "" where it is."""
    most = most_threads()
    if threads <= most:
        return ""
    return (
        f"NUMBA_NUM_THREADS is {most}, not {threads}"
        if _held()
        else f"{most} cores are usable here, not {threads}"
    )


def times(samples: pd.DataFrame, name: str) -> dict[str, Any]:
    """The columns median_s, p20_s, p80_s, repeats of one call."""
    return summary(samples, name)._asdict()


def labelled(samples: pd.DataFrame, **cell: object) -> pd.DataFrame:
    """Samples with the keys of their cell in front."""
    named = samples.copy()
    for column, value in reversed(cell.items()):
        named.insert(0, column, value)
    return named


def together(samples: list[pd.DataFrame]) -> pd.DataFrame:
    """The samples of all cells; an empty table where nothing could be timed."""
    return pd.concat(samples, ignore_index=True) if samples else pd.DataFrame(columns=["name", "repeat"])

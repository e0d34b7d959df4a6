"""What the timed experiments share: thread counts, columns of times, tables of results and of samples."""

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import pandas as pd
from numba import config as numba_config

from layernorm_backward import machine
from layernorm_backward.schemas import SCHEMAS
from layernorm_backward.stopwatch import summary

ThreadCount = int | Literal["all"]
TIMES = ("median_s", "p20_s", "p80_s")


def most_threads() -> int:
    """The threads that "all" stands for: the usable cores, or fewer where Numba is held to fewer."""
    return min(machine.usable_cores(), numba_config.NUMBA_NUM_THREADS)


def thread_counts(wanted: Iterable[ThreadCount]) -> list[int]:
    """The thread counts in a config, "all" resolved, each once, in order; ValueError for one below 1."""
    counts = [most_threads() if count == "all" else count for count in wanted]
    if any(count < 1 for count in counts):
        raise ValueError(f"threads is {list(wanted)}; allowed: whole numbers from 1, or all")
    return sorted(set(counts))


def too_many(threads: int) -> str:
    """Why a thread count cannot be had here, "" where it can."""
    return f"{most_threads()} cores are usable here, not {threads}" if threads > most_threads() else ""


def times(samples: pd.DataFrame, name: str) -> dict[str, Any]:
    """The columns median_s, p20_s, p80_s, repeats of one call."""
    return summary(samples, name)._asdict()


def labelled(samples: pd.DataFrame, **cell: object) -> pd.DataFrame:
    """Samples with the keys of their cell in front."""
    named = samples.copy()
    for column, value in reversed(cell.items()):
        named.insert(0, column, value)
    return named


def table(rows: Iterable[dict[str, Any]], stem: str) -> pd.DataFrame:
    """Rows as the table of `stem`: what a row leaves out is empty, its reason is "" where it has none."""
    columns = SCHEMAS[stem].columns
    empty = {"str": "", "int": pd.NA, "float": np.nan, "bool": pd.NA}
    filled = [{name: row.get(name, empty[kind]) for name, kind in columns.items()} for row in rows]
    kinds = {"str": "str", "int": "Int64", "float": "float64", "bool": "boolean"}
    return pd.DataFrame(filled, columns=list(columns)).astype(
        {name: kinds[kind] for name, kind in columns.items()}
    )

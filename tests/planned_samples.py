"""Samples as `stopwatch.compare` gives them, of times that a test has chosen; a sweep of one small cell."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from layernorm_backward import stopwatch
from layernorm_backward.kernels import processor

COLUMNS = ["name", "repeat", "seconds", "calls", "wait_s", "waited"]
SWEEP = {  # of `_cells`
    "working_sets": [60_000],
    "dtypes": ["float32"],
    "hidden": [48],
    "directions": ["backward"],
    "threads": [1],
}


def samples_of(seconds: Mapping[str, np.ndarray], waited=()) -> pd.DataFrame:
    """Samples of calls with these seconds per repetition; all calls wait in the repetitions `waited`."""
    rows = [
        (name, repeat, its, 1, 0.0, repeat in waited)
        for name, each in seconds.items()
        for repeat, its in enumerate(each)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def planned(monkeypatch, count, waited=(), **seconds):
    """`count` samples of every call: about 1 s, or the seconds given by name; all wait in those `waited`."""
    steady = np.linspace(1, 1.001, count)

    def compare(calls, **how):
        return samples_of({name: seconds.get(name, steady) for name in calls}, waited)

    monkeypatch.setattr(stopwatch, "compare", compare)


def single_short_rows(monkeypatch):
    """In the caches short rows go one by one and are prefetched from here on, which a Xeon 6 spares."""
    here = processor.traits()._replace(short_alone=True, paged_backward=True)
    monkeypatch.setattr(processor, "traits", lambda: here)


def known(monkeypatch):
    """A list to which each comparison adds the names of the calls whose seconds per run are passed to it."""
    given, compare = [], stopwatch.compare

    def noted(calls, known_s, **how):
        given.append(set(known_s))
        return compare(calls, known_s=known_s, **how)

    monkeypatch.setattr(stopwatch, "compare", noted)
    return given

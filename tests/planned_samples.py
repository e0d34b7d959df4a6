"""Samples as `stopwatch.compare` gives them, of times that a test has chosen."""

import numpy as np
import pandas as pd

from layernorm_backward import stopwatch

COLUMNS = ["name", "repeat", "seconds", "calls", "wait_s", "waited"]


def planned(monkeypatch, count, waited=(), **seconds):
    """`count` samples of every call: about 1 s, or what is given for its name; all wait in those `waited`."""
    steady = np.linspace(1, 1.001, count)

    def compare(calls, **how):
        rows = [
            (name, repeat, seconds.get(name, steady)[repeat], 1, 0.0, repeat in waited)
            for name in calls
            for repeat in range(count)
        ]
        return pd.DataFrame(rows, columns=COLUMNS)

    monkeypatch.setattr(stopwatch, "compare", compare)

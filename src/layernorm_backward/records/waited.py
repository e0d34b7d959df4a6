"""The share of samples in which a thread waited for a core: another process ran, here or on the host.

A record holds the share of such samples, and the end of a run reports a large share: repetitions with such
samples are excluded from medians only if enough others remain (`stopwatch`).
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

WAITED = "waited_share"
MOST = 0.1
_WARNING = (
    "warning: threads waited for a core while these tables were timed: something ran, here or on the host"
)


def share(samples: pd.DataFrame) -> float:
    """The share of samples marked as `waited`; NaN where no sample has a waiting time."""
    known = samples.loc[samples["wait_s"].notna(), "waited"]
    return round(float(known.mean()), 4) if len(known) else float("nan")


def warnings(records: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A warning with one line per table, by stem, whose share is over MOST; empty if there is none."""
    busy = {stem: share for stem, share in _shares(records).items() if share > MOST}
    lines = [f"  {stem}: in {share:.0%} of the samples" for stem, share in busy.items()]
    return [f"{_WARNING}; remove a table to have it measured again:", *lines] if lines else []


def largest(records: Mapping[str, Mapping[str, Any]]) -> tuple[str, float] | None:
    """The table of this run with the largest share, and that share; None if no table holds one."""
    return max(_shares(records).items(), key=lambda item: item[1], default=None)


def _shares(records: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    own = {stem: it for stem, it in sorted(records.items()) if "archived" not in it}
    return {stem: it[WAITED] for stem, it in own.items() if WAITED in it}

"""What the predicates about the decisions of numba_fused must say of tables that confirm, or do not."""

from collections.abc import Iterator

import pandas as pd

from claim_cases import Case, cases_of
from claim_frames import frame

KEYS = {"direction": "backward", "dtype": "float32", "threads": 2, "working_set": "beyond_cache"}


def decided(*costs: tuple[float, bool]) -> pd.DataFrame:
    """Costs of one decision, and whether they are differences, by hidden size."""
    rows = [(cost, differs, 256 * (1 + size)) for size, (cost, differs) in enumerate(costs)]
    table = frame("cost differs hidden", *rows, variant="no_prefetch", **KEYS)
    return table.assign(cost_low=table["cost"] - 0.01, cost_high=table["cost"] + 0.01)


def bits(*equal: bool) -> pd.DataFrame:
    rows = [(it, f"variant_{number}") for number, it in enumerate(equal)]
    return frame("bits_equal variant", *rows, hidden=256, **KEYS)


def errors(kept: list[float], lost: list[float]) -> pd.DataFrame:
    rows = [*(("default", it) for it in kept), *(("no_recentring", it) for it in lost)]
    return frame("variant kappa_error_u_max", *rows, hidden=256, kappa=1e6, **KEYS)


def decisions() -> Iterator[Case]:
    yield from cases_of(
        "bits_stay", 0, {}, confirmed=[(bits(True, True),)], refuted=[(bits(True, False),), (bits(False),)]
    )
    yield from cases_of(
        "recentring_is_used",
        4,
        {"without": 1e3},
        confirmed=[(errors([2.0, 3.0, 1.0], [1e5, 1e4, 1e6]),)],
        corrected=[(errors([2.0], [1e3]),), (errors([2.0, 3.0, 1.0], [1e5, 3.0, 1e6]),)],
        refuted=[(errors([4.0], [1e5]),), (errors([2.0, 5.0, 1.0], [1e5, 1e4, 1e6]),)],
    )
    sure, small, unsure = (-0.2, True), (-0.01, True), (-0.2, False)
    yield from cases_of(
        "decision_saves",
        0.05,
        {},
        confirmed=[(decided(sure, sure),)],
        corrected=[(decided(sure, sure, small),), (decided(sure, unsure),)],
        refuted=[(decided(small, small, sure),), (decided((0.3, True)),), (decided((-0.05, True)),)],
    )
    cheap, dear = (0.01, False), (0.2, True)
    yield from cases_of(
        "decision_costs_at_most",
        0.05,
        {},
        confirmed=[(decided(cheap, sure),), (decided((0.05, True)),)],
        corrected=[(decided(dear, dear, cheap),)],
        refuted=[(decided(dear, dear),)],
    )

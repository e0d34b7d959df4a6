"""What the predicates about the audit must say of small tables."""

from collections.abc import Iterator

import pandas as pd

from claim_cases import Case, cases_of
from claim_frames import frame


def findings(*rows: tuple[float, bool | None]) -> tuple[pd.DataFrame]:
    """Findings about one kernel: the value of each, and whether it passed."""
    columns = "property value passed"
    named = [(f"property_{index}", *row) for index, row in enumerate(rows)]
    table = frame(columns, *named, kernel="compact", dtype="float32")
    return (table.assign(passed=table["passed"].astype("boolean")),)


def audits() -> Iterator[Case]:
    right, wrong, unknown = (1.0, True), (9.0, False), (float("nan"), None)
    for predicate in ("audit_passes", "peers_pass"):
        confirmed = [findings(right, right), findings(right, unknown)]
        yield from cases_of(predicate, 0.0, {}, confirmed=confirmed, refuted=[findings(right, wrong)])
    yield from cases_of(
        "peers_fail",
        0.0,
        {},
        confirmed=[findings(wrong, wrong, unknown)],
        corrected=[findings(wrong, right)],
        refuted=[findings(right, right)],
    )
    for predicate in ("audit_grows", "peers_grow"):
        near = findings((1.05, False), (0.93, False))
        far = [findings((1.0, False), (1.0, False), (power, False)) for power in (1.2, 0.8)]
        yield from cases_of(predicate, 0.1, {"expected": 1.0}, confirmed=[near], refuted=far)

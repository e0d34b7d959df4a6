"""The record beside each table: machine, versions, code, configuration, date and duration."""

from datetime import UTC, datetime
from time import perf_counter
from typing import Any, NamedTuple

from layernorm_backward import clock, machine
from layernorm_backward.records.provenance import code_hash
from layernorm_backward.records.revision import commit


class Started(NamedTuple):
    """When a run began (UTC, and by a clock that is never set), the load there was, the seconds its threads
    had waited for a core, and the description of the GPU that it measures, where it does."""

    date: datetime
    at_s: float
    load_1min: float
    waited_s: float
    device: dict[str, Any]


def begin(device: dict[str, Any] | None = None) -> Started:
    """The state of things before a run, for its record; of a GPU that is lost later nothing can be told."""
    return Started(datetime.now(UTC), perf_counter(), machine.load_1min(), clock.run_queue_s(), device or {})


def record(module: str, config: dict[str, Any], study: str, started: Started) -> dict[str, Any]:
    """What a reader needs to judge and to repeat a table.

    The load is that of before; the one after is in `machine`, but for a GPU. waited_s are the seconds that the threads of
    this run stood in the run queue, ready but without a core (null where the system does not tell).
    """
    waited_s = clock.run_queue_s() - started.waited_s
    return {
        "study": study,
        "config": config,
        "code_hash": code_hash(module, config.get("kernels", ())),
        "commit": commit(),
        "date": started.date.isoformat(timespec="seconds"),
        "duration_s": round(perf_counter() - started.at_s, 3),
        "load_1min_before": started.load_1min,
        "waited_s": round(max(waited_s, 0.0), 3) if waited_s == waited_s else None,
        "machine": started.device or machine.describe(),
    }

"""The record beside each table: machine, versions, code, configuration, date and duration."""

from collections.abc import Iterable
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, NamedTuple

from layernorm_backward import machine
from layernorm_backward.host import installed
from layernorm_backward.records.provenance import code_hash, constant
from layernorm_backward.records.revision import commit
from layernorm_backward.timing import clock


class Started(NamedTuple):
    """What runs: the hash of its code, the commit, and the versions of packages that it requires beyond the
    set-up. When it began (UTC, and by a clock that is never set), the load there was, the seconds its threads
    had waited for a core, and the description of the GPU that it measures, where it does."""

    code_hash: str
    commit: str
    required: dict[str, str]
    date: datetime
    at_s: float
    load_1min: float
    waited_s: float
    device: dict[str, Any]


def begin(module: str, kernels: Iterable[str] = (), device: dict[str, Any] | None = None) -> Started:
    """The state of things before a run, for its record.

    Afterwards the code may have been edited, and of a GPU that was lost nothing can be told.
    """
    required = {name: installed.of_import(name) for name in constant(module, "REQUIRES")}
    code = code_hash(module, kernels), commit(), {name: told for name, told in required.items() if told}
    now = datetime.now(UTC), perf_counter(), machine.load_1min(), clock.run_queue_s()
    return Started(*code, *now, device or {})


def record(config: dict[str, Any], study: str, started: Started) -> dict[str, Any]:
    """What a reader needs to judge and to repeat a table.

    The load is that of before; the one after is in `machine`, where that is no GPU. waited_s are the seconds
    that the threads of this run stood in the run queue, ready but without a core (null where the system does
    not tell).
    """
    waited_s = clock.run_queue_s() - started.waited_s
    return {
        "study": study,
        "config": config,
        "code_hash": started.code_hash,
        "commit": started.commit,
        "date": started.date.isoformat(timespec="seconds"),
        "duration_s": round(perf_counter() - started.at_s, 3),
        "load_1min_before": started.load_1min,
        "waited_s": round(max(waited_s, 0.0), 3) if waited_s == waited_s else None,
        "machine": started.device or machine.describe() | started.required,
    }

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
    """The state at the start of a run: code hash, commit, and versions of the packages that it requires
    beyond the standard set-up; the date (UTC) and a monotonic time; the load, the seconds that threads of
    this process have waited for a core, and the description of the GPU, if one is measured."""

    code_hash: str
    commit: str
    required: dict[str, str]
    date: datetime
    at_s: float
    load_1min: float
    waited_s: float
    device: dict[str, Any]


def begin(module: str, kernels: Iterable[str] = (), device: dict[str, Any] | None = None) -> Started:
    """The state before a run, for its record.

    Afterwards the code may have been edited, or the GPU may be lost and cannot be described.
    """
    required = {name: installed.of_import(name) for name in constant(module, "REQUIRES")}
    versions = {name: version for name, version in required.items() if version}
    code = code_hash(module, kernels), commit(), versions
    now = datetime.now(UTC), perf_counter(), machine.load_1min(), clock.run_queue_s()
    return Started(*code, *now, device or {})


def record(config: dict[str, Any], study: str, started: Started) -> dict[str, Any]:
    """The record of a table: everything needed to judge and to repeat it.

    load_1min_before is the load before the run; the one after it is in `machine`, unless this is a GPU.
    waited_s: seconds that threads of this run were in the run queue, ready but without a core (null where the
    system does not report it).
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

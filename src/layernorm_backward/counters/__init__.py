"""Bytes that a call moves between processor and memory, read from the counters of the memory controllers.

Such counters see the whole machine, not a process: they are read while the machine does nothing else, over
repeated calls. They are believed only if they also give the bytes of a stream whose bytes are known. Reading
them takes a machine that shows them (a virtual one rarely does) and the right to: on Linux root, or
`sudo sysctl kernel.perf_event_paranoid=0`. Elsewhere `missing` says why not.
"""

import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from layernorm_backward.counters.memory_controllers import DEVICES, events, sources
from layernorm_backward.counters.perf_events import Count, counting

PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


def missing(devices: Path = DEVICES) -> str:
    """Why bytes cannot be counted here; "" where they can."""
    if platform.system() != "Linux":
        return f"memory counters are read through Linux; this is {platform.system()}"
    wanted = events(devices)
    if not wanted:
        shown = ", ".join(sources(devices)) or "none"
        return f"no memory controller among the event sources of this machine ({shown})"
    try:
        with counting(wanted):
            return ""
    except (OSError, NotImplementedError) as error:
        return _refused(error)


@contextmanager
def memory_bytes(devices: Path = DEVICES) -> Iterator[Count]:
    """A function that runs a call and returns the bytes read and written meanwhile by all controllers."""
    with counting(events(devices)) as count:
        yield count


def per_call(count: Count, call: Callable[[], object], repeats: int) -> float:
    """Bytes per call, over `repeats` calls in a row after one that is not counted."""
    call()

    def calls() -> None:
        for _ in range(repeats):
            call()

    return count(calls) / repeats


def disbelief(counted: float, known: float, tolerance: float) -> str:
    """Why counters are not trusted; "" where the counted bytes equal the known ones within `tolerance`."""
    if abs(counted / known - 1) <= tolerance:
        return ""
    return f"the counters give {counted / known:.2f} times the bytes of a stream of known bytes"


def _refused(error: OSError | NotImplementedError) -> str:
    level = PARANOID.read_text(encoding="ascii").strip() if PARANOID.exists() else "unknown"
    if isinstance(error, PermissionError):
        return (
            f"the kernel lets no user read memory counters (perf_event_paranoid is {level}; allowed: 0, root)"
        )
    return f"the kernel refuses the memory counters: {error}"

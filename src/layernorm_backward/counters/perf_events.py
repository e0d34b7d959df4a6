"""Event counters of Linux, opened by its system call perf_event_open and switched on for one call only.

The kernel's own interface: no program and no package is needed, and two requests to the kernel start and
stop the count, so that nothing but the call lies between them. (`perf stat` would need a package that fits
the kernel, and a child process that is told through pipes when to count; PAPI and LIKWID are libraries to
be compiled, with services of their own.) The layout of the request is that of linux/perf_event.h.
"""

import ctypes
import fcntl
import os
import platform
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from layernorm_backward.counters.memory_controllers import Event

_CALL_NUMBERS = {"x86_64": 298, "aarch64": 241}
_ATTRIBUTES = "IIQQQQQIIQ"  # type, size, config, period, sample type, read format, flags, ..., config1
_TIMES, _DISABLED = 3, 1  # read the times enabled and running beside the count; open it switched off
_ENABLE, _DISABLE, _RESET = 0x2400, 0x2401, 0x2403
_EVERY_PROCESS, _NO_GROUP = -1, -1

Count = Callable[[Callable[[], object]], float]


@contextmanager
def counting(events: Sequence[Event]) -> Iterator[Count]:
    """A function that runs a call and returns the bytes that all events counted meanwhile, on every core.

    Raises OSError where the kernel refuses an event, NotImplementedError on an unknown architecture.
    """
    with ExitStack() as stack:
        opened = []
        for event in events:
            for core in event.cores:
                number = _open(event, core)
                stack.callback(os.close, number)
                opened.append((number, event.bytes_per_count))
        yield lambda call: _counted(opened, call)


def _counted(opened: Sequence[tuple[int, float]], call: Callable[[], object]) -> float:
    _switch(opened, _RESET)
    _switch(opened, _ENABLE)
    try:
        call()
    finally:
        _switch(opened, _DISABLE)
    return sum(scale * _read(number) for number, scale in opened)


def _switch(opened: Sequence[tuple[int, float]], request: int) -> None:
    for number, _ in opened:
        fcntl.ioctl(number, request, 0)


def _read(number: int) -> float:
    """A count, extrapolated to the whole time where events took turns on few counters; NaN if never on."""
    count, enabled, running = struct.unpack("QQQ", os.read(number, 24))
    return count * enabled / running if running else float("nan")


def _open(event: Event, core: int) -> int:
    call_number = _CALL_NUMBERS.get(platform.machine())
    if call_number is None:
        raise NotImplementedError(f"the number of perf_event_open is not known for {platform.machine()}")
    size = struct.calcsize(_ATTRIBUTES)
    attributes = struct.pack(_ATTRIBUTES, event.type, size, event.config, 0, 0, _TIMES, _DISABLED, 0, 0, 0)
    library = ctypes.CDLL(None, use_errno=True)
    number = library.syscall(
        ctypes.c_long(call_number), attributes, _EVERY_PROCESS, core, _NO_GROUP, ctypes.c_ulong(0)
    )
    if number < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), f"{event.device}/{event.name}")
    return number

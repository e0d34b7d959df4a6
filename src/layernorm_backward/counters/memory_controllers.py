"""The events of this machine's memory controllers: what Linux lists below /sys/bus/event_source/devices.

A bus transfer between processor and memory is one count of one controller: 64 bytes, or as its files `scale`
and `unit` say. Intel's events stand in the file system. AMD's do not, and are encoded here as in the event
lists of Linux (tools/perf/pmu-events/arch/x86/amdzen3 and amdzen4): one count holds reads and writes. The
first kind that a machine has is taken, so that nothing is counted twice.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from layernorm_backward.host.system_files import contents

DEVICES = Path("/sys/bus/event_source/devices")
TRANSFER = 64  # bytes per count where the system gives no scale
_UNITS = {"": 1.0, "Bytes": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
_LISTED = (  # Intel: servers, desktops; device, event
    ("uncore_imc", re.compile(r"cas_count_(read|write)(_sch\d)?")),
    ("uncore_imc", re.compile(r"data_(read|write)s?")),
)
_ENCODED = (  # AMD: from Zen 4 on, before
    ("amd_umc", ("event=0x0a",)),
    ("amd_df", tuple(f"event={0x07 + 0x40 * channel:#x},umask=0x38" for channel in range(8))),
)


class Event(NamedTuple):
    """One event of one controller: its numbers for the kernel, and a core of each socket that counts it."""

    device: str
    name: str
    type: int
    config: int
    cores: tuple[int, ...]
    bytes_per_count: float


def events(folder: Path = DEVICES) -> list[Event]:
    """All events that together count every transfer; empty where the machine shows no memory controller."""
    kinds = [_listed(folder, *kind) for kind in _LISTED] + [_encoded(folder, *kind) for kind in _ENCODED]
    return next((found for found in map(list, kinds) if found), [])


def sources(folder: Path = DEVICES) -> list[str]:
    """The names of all event sources that the system lists, whatever they count."""
    return sorted(path.name for path in folder.glob("*"))


def _listed(folder: Path, device: str, wanted: re.Pattern[str]) -> Iterator[Event]:
    for path in sorted(folder.glob(f"{device}*/events/*")):
        if wanted.fullmatch(path.name):
            scale = float(contents(path.with_name(f"{path.name}.scale")) or TRANSFER)
            unit = _UNITS[contents(path.with_name(f"{path.name}.unit"))]
            yield _event(path.parent.parent, path.name, contents(path), scale * unit)


def _encoded(folder: Path, device: str, encodings: tuple[str, ...]) -> Iterator[Event]:
    for path in sorted(folder.glob(f"{device}*")):
        for encoding in encodings:
            yield _event(path, encoding, encoding, TRANSFER)


def _event(device: Path, name: str, encoding: str, bytes_per_count: float) -> Event:
    config = 0
    for field, _, value in (term.partition("=") for term in encoding.split(",")):
        config |= _placed(contents(device / "format" / field), int(value or "1", 0))
    cores = _cores(contents(device / "cpumask"))
    return Event(device.name, name, int(contents(device / "type")), config, cores, bytes_per_count)


def _placed(layout: str, value: int) -> int:
    """A field's value at the bits of `config` that its layout names, lowest first: config:0-7,32-35."""
    placed = 0
    for part in layout.removeprefix("config:").split(","):
        first, _, last = part.partition("-")
        width = int(last or first) - int(first) + 1
        placed |= (value & (1 << width) - 1) << int(first)
        value >>= width
    return placed


def _cores(text: str) -> tuple[int, ...]:
    """'0,28-29' -> 0, 28, 29; core 0 where the device names none."""
    ranges = (part.partition("-") for part in (text or "0").split(","))
    return tuple(n for first, _, last in ranges for n in range(int(first), int(last or first) + 1))

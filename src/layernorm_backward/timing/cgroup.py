"""The memory that a container, or any other control group of Linux, leaves to this process."""

from collections.abc import Iterator
from math import inf
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from layernorm_backward.machine import contents


class _Names(NamedTuple):
    """Files of one version of control groups; `cached` is a key of memory.stat: what can be given back."""

    limit: str
    used: str
    cached: str


_V1 = _Names("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_V2 = _Names("memory.max", "memory.current", "inactive_file")


def available(groups: Path = Path("/proc/self/cgroup"), mounted: Path = Path("/sys/fs/cgroup")) -> float:
    """Bytes that the groups of this process still may take, the least of them; inf where none has a limit.

    Files that were read and can be read again are not counted as taken.
    """
    return min((_left(folder, names) for folder, names in _folders(groups, mounted)), default=inf)


def _folders(groups: Path, mounted: Path) -> Iterator[tuple[Path, _Names]]:
    """The folder of each group with limits on memory, and those above it, whose limits hold as well."""
    for line in contents(groups).splitlines():
        _, controllers, place = [*line.split(":", 2), "", ""][:3]
        if controllers and "memory" not in controllers.split(","):
            continue
        root, names = (mounted / "memory", _V1) if controllers else (mounted, _V2)
        own = PurePosixPath("/", place)
        for group in (own, *own.parents):
            yield root / group.relative_to("/"), names


def _left(folder: Path, names: _Names) -> float:
    limit, used = contents(folder / names.limit), contents(folder / names.used)
    if not (limit.isdecimal() and used.isdecimal()):
        return inf
    stat = dict(line.split(" ", 1) for line in contents(folder / "memory.stat").splitlines() if " " in line)
    cached = stat.get(names.cached, "")
    taken = int(used) - (int(cached) if cached.isdecimal() else 0)
    return max(0, int(limit) - max(0, taken))

"""Limits of memory and cores that a container, or another control group of Linux, sets for this process."""

from collections.abc import Iterator
from math import inf
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from layernorm_backward.host.system_files import contents

GROUPS, MOUNTED = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


class _Names(NamedTuple):
    """Files of one version of control groups; `cached` is a key of memory.stat: what can be given back."""

    limit: str
    used: str
    cached: str


_V1 = _Names("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_V2 = _Names("memory.max", "memory.current", "inactive_file")


def available(groups: Path = GROUPS, mounted: Path = MOUNTED) -> float:
    """Bytes that the groups of this process still may take, the least of them; inf where none has a limit.

    Files that were read and can be read again are not counted as taken.
    """
    folders = _folders("memory", groups, mounted)
    return min((_left(folder, _V1 if old else _V2) for folder, old in folders), default=inf)


def cores(groups: Path = GROUPS, mounted: Path = MOUNTED) -> float:
    """Cores whose time the groups of this process may use, a quota over its period; inf for no quota."""
    folders = _folders("cpu", groups, mounted)
    return min((_quota(folder, old) for folder, old in folders), default=inf)


def _folders(controller: str, groups: Path, mounted: Path) -> Iterator[tuple[Path, bool]]:
    """The folder of each group that a controller limits, and those above it, whose limits hold as well.

    With each whether it is of the first version, in which a controller has groups of its own.
    """
    for line in contents(groups).splitlines():
        _, controllers, place = [*line.split(":", 2), "", ""][:3]
        if controllers and controller not in controllers.split(","):
            continue
        root, own = mounted / controller if controllers else mounted, PurePosixPath("/", place)
        for group in (own, *own.parents):
            yield root / group.relative_to("/"), bool(controllers)


def _left(folder: Path, names: _Names) -> float:
    limit, used = contents(folder / names.limit), contents(folder / names.used)
    if not (limit.isdecimal() and used.isdecimal()):
        return inf
    stat = dict(line.split(" ", 1) for line in contents(folder / "memory.stat").splitlines() if " " in line)
    cached = stat.get(names.cached, "")
    taken = int(used) - (int(cached) if cached.isdecimal() else 0)
    return max(0, int(limit) - max(0, taken))


def _quota(folder: Path, old: bool) -> float:
    if old:
        told = [contents(folder / name) for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")]
    else:
        told = contents(folder / "cpu.max").split()
    if len(told) != 2 or not all(map(str.isdecimal, told)) or int(told[1]) == 0:
        return inf
    return int(told[0]) / int(told[1])

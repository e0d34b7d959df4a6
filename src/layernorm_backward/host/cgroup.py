"""Limits of memory and cores set for this process by Linux control groups, such as those of a container."""

from collections.abc import Iterator
from math import inf
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from layernorm_backward.host.system_files import contents

GROUPS, MOUNTED = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


class _Names(NamedTuple):
    """Files of one version of control groups; `cached` is the key in memory.stat of reclaimable bytes."""

    limit: str
    used: str
    cached: str


_V1 = _Names("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_V2 = _Names("memory.max", "memory.current", "inactive_file")


def available(groups: Path = GROUPS, mounted: Path = MOUNTED) -> float:
    """Bytes that this process may still allocate, the minimum over its groups; inf where none has a limit.

    Cached file contents, which the kernel can reclaim, do not count as used.
    """
    folders = _folders("memory", groups, mounted)
    return min((_left(folder, _V1 if old else _V2) for folder, old in folders), default=inf)


def cores(groups: Path = GROUPS, mounted: Path = MOUNTED) -> float:
    """Cores that the groups of this process may use, as quota over period; inf where there is no quota."""
    folders = _folders("cpu", groups, mounted)
    return min((_quota(folder, old) for folder, old in folders), default=inf)


def _folders(controller: str, groups: Path, mounted: Path) -> Iterator[tuple[Path, bool]]:
    """The folder of each group of a controller and of its parents, whose limits also apply.

    With each, whether it is of version 1, in which every controller has its own groups.
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
    occupied = int(used) - (int(cached) if cached.isdecimal() else 0)
    return max(0, int(limit) - max(0, occupied))


def _quota(folder: Path, old: bool) -> float:
    if old:
        numbers = [contents(folder / name) for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")]
    else:
        numbers = contents(folder / "cpu.max").split()
    if len(numbers) != 2 or not all(map(str.isdecimal, numbers)) or int(numbers[1]) == 0:
        return inf
    return int(numbers[0]) / int(numbers[1])

"""Values that macOS reports by sysctl, and the cache sizes computed from them."""

import subprocess
from collections.abc import Iterable
from functools import cache
from math import ceil


@cache
def sysctl(name: str) -> str:
    """A value as text; "" where the system has none of this name."""
    done = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def cache_bytes() -> dict[str, int]:
    """Bytes of l1d and l2 of the fastest kind of core (level 0), and of last_level: L3, or all L2 together.

    Systems without levels report `hw.l1dcachesize` and `hw.l2cachesize`; on Apple silicon these describe the
    slowest kind of core.
    """
    levels = [f"hw.perflevel{level}" for level in range(_number("hw.nperflevels"))]
    first = [*levels[:1], "hw"]
    l1d, l2 = (_first(f"{level}.{name}" for level in first) for name in ("l1dcachesize", "l2cachesize"))
    every_l2 = sum(_l2_caches(level) * _number(f"{level}.l2cachesize") for level in levels)
    return {"l1d": l1d, "l2": l2, "last_level": _number("hw.l3cachesize") or every_l2 or l2}


def _l2_caches(level: str) -> int:
    return ceil(_number(f"{level}.physicalcpu") / max(1, _number(f"{level}.cpusperl2")))


def _first(names: Iterable[str]) -> int:
    return next(filter(None, map(_number, names)), 0)


def _number(name: str) -> int:
    return int(sysctl(name) or 0)

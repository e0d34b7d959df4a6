"""The memory that is available now: here, or where a limit holds, as of a container or a process."""

from math import inf

import psutil

from layernorm_backward.host import cgroup

try:
    from resource import RLIM_INFINITY, RLIMIT_AS, getrlimit
except ImportError:  # no such limit on this system
    getrlimit = None


def available() -> int:
    """Bytes that this process still may take."""
    return int(min(psutil.virtual_memory().available, cgroup.available(), _address_space()))


def _address_space() -> float:
    """Bytes of addresses that the limit of this process (`ulimit -v`) leaves; inf where it has none."""
    if not getrlimit or getrlimit(RLIMIT_AS)[0] == RLIM_INFINITY:
        return inf
    return max(0, getrlimit(RLIMIT_AS)[0] - psutil.Process().memory_info().vms)

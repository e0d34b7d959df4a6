"""The memory that is available now: here, or in a group of processes with a limit, such as a container."""

import psutil

from layernorm_backward import cgroup


def available() -> int:
    """Bytes that this process still may take."""
    return int(min(psutil.virtual_memory().available, cgroup.available()))

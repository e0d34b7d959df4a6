"""Description of the machine for provenance: processor, caches, memory, versions, load.

Read from the operating system (Linux: /proc and /sys; macOS: sysctl), the environment and package metadata.
No package is imported for its version, so this takes milliseconds. What a system does not report is "" or 0.
"""

import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

from layernorm_backward.host import cgroup, installed, macos, variables
from layernorm_backward.host.system_files import contents

PACKAGES = (
    "numpy",
    "numba",
    "llvmlite",
    "scipy",
    "ml_dtypes",
    "pandas",
    "sympy",
    "python-flint",
    "matplotlib",
    "snakemake",
)
_CPU, _CPU_INFO = Path("/sys/devices/system/cpu"), Path("/proc/cpuinfo")
_DESIGN = {"family": "cpu family", "model": "model", "stepping": "stepping"}
_VECTORS = {"avx512f": "AVX-512", "avx2": "AVX2", "avx": "AVX", "sve": "SVE", "asimd": "Advanced SIMD"}


def describe() -> dict[str, str | int | float]:
    """Provenance of a measurement: one flat record, with units in the names and a version per package."""
    caches = cache_bytes()
    return {
        "cpu": cpu_model(),
        "design": design(),
        "vectors": vectors(),
        "cores_usable": usable_cores(),
        "affinity": affinity(),
        "cores_physical": psutil.cpu_count(logical=False) or 0,
        "cores_logical": psutil.cpu_count() or 0,
        "l1d_bytes": caches.get("l1d", 0),
        "l2_bytes": caches.get("l2", 0),
        "last_level_cache_bytes": caches.get("last_level", 0),
        "memory_bytes": psutil.virtual_memory().total,
        "load_1min": load_1min(),
        "variables": variables.describe(),
        "architecture": platform.machine(),
        "os": _operating_system(),
        "python": platform.python_version(),
        **{name: installed.version(name) for name in PACKAGES},
    }


def usable_cores() -> int:
    """Logical cores available to this process, by its affinity mask and the quota of its container."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(min(allowed, cgroup.cores())))


def affinity() -> str:
    """The logical cores that this process may run on, as ranges ("0-3,8"); "" where none are set."""
    if not hasattr(os, "sched_getaffinity"):
        return ""
    ranges: list[list[int]] = []
    for core in sorted(os.sched_getaffinity(0)):
        if ranges and core == ranges[-1][-1] + 1:
            ranges[-1][1:] = [core]
        else:
            ranges.append([core])
    return ",".join("-".join(map(str, ends)) for ends in ranges)


def load_1min() -> float:
    """Processes running or waiting for a core, averaged over the last minute; 0 where not known."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else 0.0


def last_level_cache_bytes() -> int:
    """Bytes of all last-level caches of the usable cores; 0 where the system does not report them."""
    return cache_bytes().get("last_level", 0)


def cache_bytes() -> dict[str, int]:
    """Bytes of l1d and l2 of one core, and of last_level: the total of all last-level caches."""
    if sys.platform == "darwin":
        return macos.cache_bytes()
    return _linux_caches(_CPU, sorted(os.sched_getaffinity(0)))


def cpu_model() -> str:
    """The processor's name, else its architecture with the identifiers that Linux on Arm reports."""
    if sys.platform == "darwin":
        return macos.sysctl("machdep.cpu.brand_string") or platform.machine()
    numbers = [(name, _field(_CPU_INFO, f"CPU {name}")) for name in ("implementer", "variant", "part")]
    design = ", ".join(f"{name} {value}" for name, value in numbers if value)
    named = f"{platform.machine()}, {design}" if design else platform.processor() or platform.machine()
    return _field(_CPU_INFO, "model name") or named


def design() -> str:
    """Family, model and stepping of an x86 processor, as Linux reports them; else "".

    Several designs may have the same name under a hypervisor.
    """
    numbers = {name: _field(_CPU_INFO, key) for name, key in _DESIGN.items()}
    return ", ".join(f"{name} {value}" for name, value in numbers.items() if value)


def vectors() -> str:
    """The widest vector instructions that the system reports; a hypervisor may hide wider ones."""
    if sys.platform == "darwin":
        shown = macos.sysctl("machdep.cpu.features") + " " + macos.sysctl("machdep.cpu.leaf7_features")
    else:
        shown = _field(_CPU_INFO, "flags") or _field(_CPU_INFO, "Features")
    flags = set(shown.lower().split())
    return next((name for flag, name in _VECTORS.items() if flag in flags), "")


def _linux_caches(folder: Path, cores: Sequence[int]) -> dict[str, int]:
    found = {}  # (level, cores) -> bytes; each core lists the caches that it shares with others
    for core in cores:
        for index in sorted(folder.glob(f"cpu{core}/cache/index*")):
            level, kind, size, shared = (
                contents(index / name) for name in ("level", "type", "size", "shared_cpu_list")
            )
            if level and kind != "Instruction":
                found[int(level), shared or str(core)] = _bytes(size)
    last = max((level for level, _ in found), default=0)
    one = {level: size for (level, _), size in found.items()}
    total = sum(size for (level, _), size in found.items() if level == last)
    return {"l1d": one.get(1, 0), "l2": one.get(2, 0), "last_level": total} if found else {}


def _bytes(text: str) -> int:
    """'36608K' -> 37486592."""
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    return int(text.rstrip("KMG") or 0) * scale


def _field(path: Path, name: str) -> str:
    lines = (line.partition(":") for line in contents(path).splitlines())
    return next((value.strip() for key, _, value in lines if key.strip() == name), "")


def _operating_system() -> str:
    if sys.platform == "darwin":
        return f"macOS {platform.mac_ver()[0]}"
    try:
        return f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {platform.system()} {platform.release()}"
    except (OSError, AttributeError, KeyError):
        return f"{platform.system()} {platform.release()}"

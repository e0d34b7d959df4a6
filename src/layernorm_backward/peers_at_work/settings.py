"""The settings in which each peer is timed: its defaults, and the fastest that we know.

default  the package's default settings.
tuned    PyTorch takes the memory of its results from glibc, which maps large blocks anew for each call: every
         page is then faulted in and cleared. Thresholds above any block keep freed memory in the process, and
         glibc asks for huge pages, as NumPy does for the arrays of our kernels.
out      PyTorch's operators with preallocated results, and the same allocator.
reuse    JAX reuses the memory of its last results (donation); whatever else XLA allocates comes from the same
         allocator as in `tuned`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from layernorm_backward.host import installed

_ABOVE_ANY = str(1 << 40)  # bytes
_KEEPING = {  # glibc: https://sourceware.org/glibc/manual/latest/html_node/Memory-Allocation-Tunables.html
    "MALLOC_MMAP_THRESHOLD_": _ABOVE_ANY,
    "MALLOC_TRIM_THRESHOLD_": _ABOVE_ANY,
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}


@dataclass(frozen=True)
class Setting:
    """How one peer's process is started: module of its calls, package, environment.

    `setting` is also passed to `prepare` of that module, as the option that selects how it calls the package.
    `threads_from` names the environment variables that set the number of threads at the start of the process.
    """

    kernel: str
    setting: str
    module: str
    requires: tuple[str, ...]
    threads_from: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    def variables(self, threads: int) -> dict[str, str]:
        """The environment variables for this number of threads."""
        return dict.fromkeys(self.threads_from, str(threads)) | dict(self.environment)

    def missing(self) -> str:
        """Which package is not installed; "" where all are."""
        names = [name for name in self.requires if not installed.is_there(name)]
        return f"not installed: {', '.join(names)}" if names else ""


def _torch(setting: str, environment: Mapping[str, str]) -> Setting:
    home = "layernorm_backward.peers_at_work.torch_calls"
    return Setting("torch", setting, home, ("torch",), ("OMP_NUM_THREADS", "MKL_NUM_THREADS"), environment)


def _jax(setting: str, environment: Mapping[str, str]) -> Setting:
    # XLA's pool has as many threads as NPROC says; the flag xla_cpu_multi_thread_eigen does not change it
    home = "layernorm_backward.peers_at_work.jax_calls"
    return Setting("jax", setting, home, ("jax",), ("NPROC",), environment)


SETTINGS: dict[str, Setting] = {
    f"{one.kernel}_{one.setting}": one
    for one in (
        _torch("default", {}),
        _torch("tuned", _KEEPING),
        _torch("out", _KEEPING),
        _jax("default", {}),
        _jax("reuse", _KEEPING),
    )
}

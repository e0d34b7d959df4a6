"""The registry of layer-normalization implementations, each under the name that tables and legends use.

A kernel's module is imported when the kernel is looked up, so that a missing technology, such as CUDA, does
no harm before. Other packages add kernels through the entry-point group `GROUP`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from math import inf
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np

from layernorm_backward.directions import DIRECTIONS
from layernorm_backward.dtypes import DTYPE_NAMES
from layernorm_backward.host import installed
from layernorm_backward.kernels.homes import HOMES
from layernorm_backward.one_line import one_line
from layernorm_backward.untrusted import taken_names

GROUP = "layernorm_backward.kernels"
Device = Literal["cpu", "cuda"]
_INSTALLED_BY = {"cupy": "make cuda"} | dict.fromkeys(("torch", "jax", "flax"), "make peers")
NO_DEVICE = (35, 100)  # status of the runtime: driver missing or too old, no device
OLDEST_DEVICE, HOPPER = 80, 90  # compute capability times ten
OLDEST_COMPILER = (12, 8)  # NVRTC for devices with clusters, whose fences need PTX 8.6


@dataclass(frozen=True)
class Kernel:
    """One implementation of the layer-normalization forward and backward pass.

    forward(x, gamma, beta, eps, out=None) -> y, saved      x, y (..., D); gamma, beta (D,)
    backward(dy, saved, out=None) -> dx, dgamma, dbeta      dy, dx (..., D); dgamma, dbeta (D,)

    default_eps: the implementation's own default; a kernel uses the eps that it is given.
    source: where formula and layout come from.
    unsupported: maps the name of a dtype to the reason why it is missing.
    requires: the import names of packages that it needs beyond our own.

    ValueError, with the field and what is allowed: for another device, no function, an eps that is not finite
    and > 0, an `unsupported` that is no mapping from names of dtypes, a `requires` that is a string.
    """

    name: str
    device: Device
    forward: Callable[..., Any]
    backward: Callable[..., Any]
    default_eps: float = 1e-5
    source: str = ""
    unsupported: Mapping[str, str] = field(default_factory=dict)
    requires: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        unsupported, eps = self.unsupported, self.default_eps
        self._require("device", self.device in get_args(Device), " or ".join(get_args(Device)))
        for role in DIRECTIONS:
            self._require(role, callable(getattr(self, role)), "a function")
        self._require("default_eps", isinstance(eps, Real) and 0 < eps < inf, "finite and > 0")
        named = isinstance(unsupported, Mapping) and set(unsupported) <= set(DTYPE_NAMES)
        self._require("unsupported", named, f"a mapping of names ({', '.join(DTYPE_NAMES)}) to reasons")
        self._require("requires", not isinstance(self.requires, str), "a tuple of import names")

    def _require(self, field: str, allowed: bool, what: str) -> None:
        if not allowed:
            raise ValueError(f"kernel {self.name!r}: {field} is {getattr(self, field)!r}; allowed: {what}")

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Names of the storage dtypes this kernel takes, widest first."""
        return tuple(name for name in DTYPE_NAMES if name not in self.unsupported)


class _Registry(Mapping[str, Kernel]):
    def __getitem__(self, name: str) -> Kernel:
        if name not in _points():
            raise ValueError(f"unknown kernel {name!r}; there are: {', '.join(_points())}")
        if len(_claims().get(name, ())) > 1:
            reason = f"entry points in the group {GROUP} share this name: {', '.join(_claims()[name])}"
            raise ValueError(f"kernel {name!r}: {reason}; allowed: a name that no other kernel has")
        if taken_names.is_taken(name):
            reason = f"{foreign_entry_point(name)} has the name of a stream, a peer, a variant or a scheme"
            raise ValueError(f"kernel {name!r}: {reason}; allowed: a name that nothing else has")
        kernel = _loaded(_points()[name])
        if kernel.name != name:
            raise ValueError(f"kernel {name!r} calls itself {kernel.name!r}; the two names must agree")
        return kernel

    def __iter__(self) -> Iterator[str]:
        return iter(_points())

    def __len__(self) -> int:
        return len(_points())

    def __contains__(self, name: object) -> bool:
        return name in _points()


@cache
def _points() -> dict[str, EntryPoint]:
    return {name: next(iter(points.values())) for name, points in _claims().items()}


@cache
def _claims() -> dict[str, dict[str, EntryPoint]]:
    """For each name, its entry points by value (MODULE:NAME), ours first."""
    own = [EntryPoint(name, f"{__name__}.{home}", GROUP) for name, home in HOMES.items()]
    found: dict[str, dict[str, EntryPoint]] = {}
    for point in (*own, *entry_points(group=GROUP)):
        found.setdefault(point.name, {}).setdefault(point.value, point)
    return found


def _loaded(point: EntryPoint) -> Kernel:
    """Load a kernel; ValueError where another package's entry point leads to none. Our own errors pass."""
    try:
        with np.errstate():  # a module may change it
            found = point.load()
    except BaseException as error:  # a package in Rust may panic
        if point.name in HOMES or isinstance(error, KeyboardInterrupt):
            raise
        raise _misled(point, f"raises {one_line(error, None)}") from error
    if not isinstance(found, Kernel):
        raise _misled(point, f"is of type {type(found).__name__}")
    return found


def _misled(point: EntryPoint, how: str) -> ValueError:
    where = f"kernel {point.name!r}: its entry point {point.value} in the group {GROUP}"
    return ValueError(f"{where} {how}; allowed: MODULE:NAME of a Kernel")


def module_of(name: str) -> str:
    """The dotted name of the module that holds a kernel, found without importing it."""
    if name not in _points():
        raise ValueError(f"unknown kernel {name!r}; there are: {', '.join(_points())}")
    return _points()[name].module


def missing(kernel: Kernel) -> str:
    """Empty where this kernel can run here, else the reason why not, as a sentence."""
    packages = [name for name in kernel.requires if not installed.is_there(name)]
    if packages:
        return f"not installed: {', '.join(packages)}"
    return device_missing() if kernel.device == "cuda" else ""


def remedy(packages: Iterable[str]) -> str:
    """The command that installs the missing ones of these packages, as a clause; "" where none is known."""
    commands = {
        _INSTALLED_BY[name] for name in packages if name in _INSTALLED_BY and not installed.is_there(name)
    }
    return "".join(f"; `{command}` installs it" for command in sorted(commands))


def foreign_entry_point(name: str) -> str:
    """The entry point that registers a kernel of another package, in words; "" for one of ours."""
    if name in HOMES or name not in _points():
        return ""
    return f"the entry point {_points()[name].value} in the group {GROUP}"


def version(kernel: Kernel) -> str:
    """The installed versions of the packages that a kernel requires, such as "torch 2.13.0"; "" for none."""
    return ", ".join(f"{name} {found}" for name in kernel.requires if (found := installed.of_import(name)))


def device_missing() -> str:
    """Empty where CuPy has a current device that the CUDA kernels can run on, else the reason why not."""
    try:
        import cupy
    except ImportError:
        return "CuPy is not installed"
    except OSError as error:  # importing it creates a folder in the home directory
        return f"CuPy cannot be imported: {error}; CUPY_CACHE_DIR names another folder"
    try:
        if not cupy.cuda.runtime.getDeviceCount():
            return "there is no CUDA device here, or no driver for it"
        found = int(cupy.cuda.Device().compute_capability)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        if error.status in NO_DEVICE:
            return "there is no CUDA device here, or no driver for it"
        return f"the CUDA device cannot be used: {error}"
    if found < OLDEST_DEVICE:
        return f"the CUDA device has compute capability {found / 10}; needed: {OLDEST_DEVICE / 10} or newer"
    return _compiler_missing(cupy.cuda.nvrtc, found)


def _compiler_missing(nvrtc: Any, capability: int) -> str:
    """Empty where the kernels can be compiled for a device of this capability, else the reason why not."""
    try:
        found = nvrtc.getVersion()
    except RuntimeError as error:
        return f"the CUDA compiler, NVRTC, cannot be used: {error}"
    if capability < HOPPER or found >= OLDEST_COMPILER:
        return ""
    version, oldest = (".".join(map(str, one)) for one in (found, OLDEST_COMPILER))
    return f"the CUDA compiler, NVRTC, is that of CUDA {version}; needed for this device: {oldest} or newer"


KERNELS: Mapping[str, Kernel] = _Registry()

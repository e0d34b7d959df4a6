"""An NVIDIA GPU through CuPy, which is not imported before a kernel is used."""

import ctypes
from collections.abc import Sequence
from functools import cache
from threading import Lock
from types import SimpleNamespace
from typing import Any

import numpy as np

from layernorm_backward.kernels import HOPPER, device_missing
from layernorm_backward.kernels.checks import HOST, Arrays
from layernorm_backward.kernels.cuda.compiler import compiled
from layernorm_backward.kernels.cuda.machine import Launch, Program
from layernorm_backward.kernels.cuda.plan import Hardware

_NON_PORTABLE_CLUSTER = 14  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED in cuda.h (CUDA 13.0)
PORTABLE_CLUSTER = 8
_INVALID_CLUSTER_SIZE = 912  # CUDA_ERROR_INVALID_CLUSTER_SIZE
_EARLY = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
_loading = Lock()  # held while a kernel is loaded or its limits raised: CuPy lets other threads run meanwhile


class Device:
    """The GPU that is current in CuPy when this is made."""

    def __init__(self) -> None:
        import cupy

        self._device = cupy.cuda.Device()
        facts = cupy.cuda.runtime.getDeviceProperties(self._device.id)
        self.hardware = Hardware(
            multiprocessors=facts["multiProcessorCount"],
            shared_bytes=facts["sharedMemPerMultiprocessor"],
            hopper=int(self._device.compute_capability) >= HOPPER,
        )
        self.arrays = Arrays(
            allowed=f"cupy.ndarray on the current device, cuda:{self._device.id}, each element at a multiple "
            "of its size",
            belongs=lambda value: (
                isinstance(value, cupy.ndarray) and value.device == self._device and _aligned(value)
            ),
            empty=cupy.empty,
            plain=lambda array: array.flags.c_contiguous,
            to_plain=cupy.ascontiguousarray,
            overlap=lambda one, other: cupy.may_share_memory(one, other) and _overlap(one, other),
        )

    def address(self, array: Any) -> int:
        """The device address of an array's first element."""
        return array.data.ptr

    def clusters(self, program: Program, how: Launch) -> int:
        """Clusters that run at the same time, by the driver; not every multiprocessor can be part of one."""
        return _clusters(self._function(program, how).ptr, how._replace(blocks=how.cluster))

    def launch(self, program: Program, how: Launch, arguments: Sequence[Any]) -> None:
        """Launch on CuPy's current stream."""
        function = self._function(program, how)
        if how.early:
            _launch_early(function.ptr, how, arguments)
        else:
            function((how.blocks,), (how.threads,), tuple(arguments), shared_mem=how.dynamic_bytes)

    def _function(self, program: Program, how: Launch) -> Any:
        """The compiled kernel, allowed the shared memory and the cluster that the launch asks for.

        It makes the device current for this thread: CuPy does so only when it loads or launches, the driver
        never.
        """
        self._device.use()
        with _loading:
            function, allowed = _loaded(self._device.id, program, how.cluster)
            if how.dynamic_bytes > allowed["dynamic_bytes"]:
                _allow_shared_memory(function.ptr, how.dynamic_bytes)
                allowed["dynamic_bytes"] = how.dynamic_bytes
        return function


def _aligned(array: Any) -> bool:
    """Whether every element is at a multiple of its size, as CuPy's own copies need, too."""
    return all(place % array.itemsize == 0 for place in (array.data.ptr, *array.strides))


def _overlap(one: Any, other: Any) -> bool:
    """Whether two arrays share an element; CuPy compares bounds, or sorts all addresses on the device."""
    return HOST.overlap(_places(one), _places(other))


def _places(array: Any) -> np.ndarray:
    """A NumPy array with the addresses of one on the device; it must not be read."""
    places = {"data": (array.data.ptr, True), "shape": array.shape, "strides": array.strides}
    return np.asarray(
        SimpleNamespace(__array_interface__=places | {"typestr": f"|V{array.itemsize}", "version": 3})
    )


def current() -> Device:
    """CuPy's current device; RuntimeError where none can be used, with the reason."""
    reason = device_missing()
    if reason:
        raise RuntimeError(reason)
    import cupy

    return _known(cupy.cuda.runtime.getDevice())


@cache
def _known(number: int) -> Device:
    """The device with this number, which must be the current one."""
    return Device()


@cache
def _loaded(device: int, program: Program, cluster: int) -> tuple[Any, dict[str, int]]:
    """The compiled kernel, allowed its cluster, and the shared memory that it has been allowed so far."""
    import cupy

    code = compiled([program], f"sm_{cupy.cuda.Device(device).compute_capability}")
    module = cupy.cuda.function.Module()
    module.load(code.cubin)
    function = module.get_function(code.names[program.text])
    if cluster > PORTABLE_CLUSTER:
        _set(function.ptr, _NON_PORTABLE_CLUSTER, 1)
    return function, {"dynamic_bytes": 0}


def _allow_shared_memory(function: int, dynamic_bytes: int) -> None:
    """Allow a block this much, and prefer the largest shared-memory carveout of a multiprocessor."""
    from cupy.cuda import driver

    _set(function, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, dynamic_bytes)
    _set(function, driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 100)


def _set(function: int, attribute: int, value: int) -> None:
    from cupy.cuda import driver

    driver.funcSetAttribute(function, attribute, value)


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute of cuda.h: its id, and its value, an int in a union of 64 bytes."""

    _fields_ = (
        ("which", ctypes.c_uint),
        ("padding", ctypes.c_uint),
        ("value", ctypes.c_int),
        ("others", ctypes.c_char * 60),
    )


class _Config(ctypes.Structure):
    """CUlaunchConfig of cuda.h, which CuPy does not define."""

    _fields_ = (
        *((name, ctypes.c_uint) for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")),
        ("dynamic_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


def _config(how: Launch) -> _Config:
    """A launch on the default stream, without attributes."""
    return _Config(how.blocks, 1, 1, how.threads, 1, 1, how.dynamic_bytes)


def _launch_early(function: int, how: Launch, arguments: Sequence[Any]) -> None:
    """Launch on CuPy's current stream; RuntimeError where the driver refuses."""
    import cupy

    values = [one if isinstance(one, np.generic) else np.uintp(one.data.ptr) for one in arguments]
    boxes = [np.array(value) for value in values]
    addresses = (ctypes.c_void_p * len(boxes))(*(box.ctypes.data for box in boxes))
    config = _config(how)
    early = _Attribute(which=_EARLY, value=1)
    config.stream = cupy.cuda.get_current_stream().ptr
    config.attributes, config.attribute_count = ctypes.addressof(early), 1
    status = _driver().cuLaunchKernelEx(ctypes.byref(config), ctypes.c_void_p(function), addresses, None)
    if status:
        raise RuntimeError(f"cuLaunchKernelEx: CUDA error {status}")


@cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


@cache
def _clusters(function: int, how: Launch) -> int:
    config, found = _config(how), ctypes.c_int()
    ask = _driver().cuOccupancyMaxActiveClusters
    status = ask(ctypes.byref(found), ctypes.c_void_p(function), ctypes.byref(config))
    if status == _INVALID_CLUSTER_SIZE:
        return 0
    if status:
        raise RuntimeError(f"cuOccupancyMaxActiveClusters: CUDA error {status}")
    return found.value

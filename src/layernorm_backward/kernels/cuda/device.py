"""An NVIDIA GPU by CuPy. Nothing here imports CuPy until a kernel is asked for."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from layernorm_backward.kernels import device_missing
from layernorm_backward.kernels.checks import Arrays
from layernorm_backward.kernels.cuda.compiler import compiled
from layernorm_backward.kernels.cuda.machine import Launch, Program
from layernorm_backward.kernels.cuda.plan import Hardware

HOPPER = 90  # compute capability times ten
_NON_PORTABLE_CLUSTER = 13  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
PORTABLE_CLUSTER = 8


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
            allowed=f"cupy.ndarray on the current device, cuda:{self._device.id}",
            belongs=lambda value: isinstance(value, cupy.ndarray) and value.device == self._device,
            empty=cupy.empty,
            plain=lambda array: array.flags.c_contiguous,
            to_plain=cupy.ascontiguousarray,
            overlap=cupy.may_share_memory,
        )

    def address(self, array: Any) -> int:
        """The device address of an array's first element."""
        return array.data.ptr

    def launch(self, program: Program, how: Launch, arguments: Sequence[Any]) -> None:
        """Launch on CuPy's current stream."""
        _function(self._device.id, program, how)(
            (how.blocks,), (how.threads,), tuple(arguments), shared_mem=how.dynamic_bytes
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
    """The device of a number, which is the current one."""
    return Device()


@cache
def _function(device: int, program: Program, how: Launch) -> Any:
    """The compiled kernel, allowed the shared memory and the cluster that the launch asks for."""
    import cupy
    from cupy.cuda import driver

    code = compiled([program], f"sm_{cupy.cuda.Device(device).compute_capability}")
    module = cupy.cuda.function.Module()
    module.load(code.cubin)
    function = module.get_function(code.names[program.text])
    if how.dynamic_bytes:
        limit = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        driver.funcSetAttribute(function.ptr, limit, how.dynamic_bytes)
    if how.cluster > PORTABLE_CLUSTER:
        driver.funcSetAttribute(function.ptr, _NON_PORTABLE_CLUSTER, 1)
    return function

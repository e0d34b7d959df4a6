"""The device that a campaign runs on: its arrays, its clock, its graphs, and what it calls itself."""

import gc
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from layernorm_backward import peers_on_gpu
from layernorm_backward.gpu import warm
from layernorm_backward.host import installed
from layernorm_backward.kernels.cuda import device
from layernorm_backward.kernels.cuda.machine import Machine, Program

Call = Callable[[], None]
FLUSH = 4  # times the L2 cache are read to empty it
CLOCKS = {"sm_mhz": "clocks.sm", "memory_mhz": "clocks.mem"}
DRIVER = {"driver": "driver_version", **CLOCKS}
STATE = {**CLOCKS, "temperature_c": "temperature.gpu", "throttled_by": "clocks_throttle_reasons.active"}
PACKAGES = (
    "cupy-cuda13x",
    "numpy",
    "ml_dtypes",
    "pandas",
    "torch",
    "triton",
    "jax",
    "liger-kernel",
    "quack-kernels",
)


class Board(Protocol):
    """What the experiments need of a device; work is done in the order in which it is asked for."""

    machine: Machine
    xp: Any
    l2_bytes: int

    def describe(self) -> dict[str, Any]: ...

    def state(self) -> dict[str, str]: ...

    def compile(self, programs: Iterable[Program]) -> int: ...

    def array(self, values: np.ndarray) -> Any: ...

    def numpy(self, array: Any) -> np.ndarray: ...

    def release(self) -> None: ...

    def lost(self) -> str: ...

    def synchronize(self) -> None: ...

    def mark(self) -> Any: ...

    def seconds(self, begin: Any, end: Any) -> float: ...

    def flush(self) -> None: ...

    def captured(self, call: Call) -> Call: ...

    def copy(self, to: Any, source: Any) -> None: ...


class Gpu:
    """CuPy's current device. RuntimeError where there is none, with the reason."""

    def __init__(self) -> None:
        self.machine = device.current()
        import cupy

        self.xp = cupy
        self._runtime = cupy.cuda.runtime
        self._number = self._runtime.getDevice()
        self._facts = self._runtime.getDeviceProperties(self._number)
        self.l2_bytes = int(self._facts["l2CacheSize"])
        self._spare: Any = None
        self._modules = 0  # that were loaded when memory was last given back

    def describe(self) -> dict[str, Any]:
        """Provenance: device, driver, versions; units in the names."""
        return {
            "gpu": self._facts["name"].decode(),
            "capability": self.xp.cuda.Device().compute_capability,
            "multiprocessors": self.machine.hardware.multiprocessors,
            "l2_bytes": self.l2_bytes,
            "memory_bytes": int(self._facts["totalGlobalMem"]),
            **told_by_driver(self.xp.cuda.Device().pci_bus_id, DRIVER),
            "driver_cuda": self._runtime.driverGetVersion(),
            "runtime_cuda": self._runtime.runtimeGetVersion(),
            "nvrtc": ".".join(map(str, self.xp.cuda.nvrtc.getVersion())),
            "cpu": platform.processor() or platform.machine(),
            "os": platform.platform(),
            "python": platform.python_version(),
            **{name: told for name in PACKAGES if (told := installed.version(name))},
        }

    def state(self) -> dict[str, str]:
        """Clocks, temperature and what holds the clocks back now; units in the names."""
        return told_by_driver(self.xp.cuda.Device().pci_bus_id, STATE)

    def compile(self, programs: Iterable[Program]) -> int:
        """Compile programs for this device, so that their first launch need not; how many did not compile.

        They are taken one by one, as they are compiled.
        """
        return warm.compile_all(programs, f"sm_{self.xp.cuda.Device().compute_capability}")

    def array(self, values: np.ndarray) -> Any:
        """A copy on the device."""
        found = self.xp.empty(values.shape, values.dtype)
        found.view(unsigned(values.dtype))[...] = self.xp.asarray(values.view(unsigned(values.dtype)))
        return found

    def numpy(self, array: Any) -> np.ndarray:
        """A copy on the host."""
        return self.xp.asnumpy(array.view(unsigned(array.dtype))).view(array.dtype)

    def release(self) -> None:
        """Give memory that no array uses back to the device, that of peers as well."""
        gc.collect()
        if len(sys.modules) > self._modules:  # what imports leave behind is not looked through again
            gc.freeze()
            self._modules = len(sys.modules)
        peers_on_gpu.release()
        self.xp.get_default_memory_pool().free_all_blocks()

    def lost(self) -> str:
        """Why the device works no more for this process, as after an illegal address; "" where it does."""
        try:
            self.synchronize()
        except self._runtime.CUDARuntimeError as error:
            return str(error)
        return ""

    def synchronize(self) -> None:
        """Wait until all work is done."""
        self._runtime.deviceSynchronize()

    def mark(self) -> Any:
        """A moment between what was asked for before and after."""
        event = self.xp.cuda.Event()
        event.record(self.xp.cuda.Stream.null)
        return event

    def seconds(self, begin: Any, end: Any) -> float:
        """Between two marks, once both have passed."""
        end.synchronize()
        return self.xp.cuda.get_elapsed_time(begin, end) / 1e3

    def flush(self) -> None:
        """Fill the L2 cache with other data, none of it dirty: what comes next has nothing to write back."""
        if self._spare is None:
            self._spare = self.xp.ones(FLUSH * self.l2_bytes // 8, np.uint64), self.xp.empty((), np.uint64)
        numbers, total = self._spare
        self.xp.sum(numbers, out=total)

    def captured(self, call: Call) -> Call:
        """The call's work as a CUDA graph, replayed by what is returned; its memory is the graph's alone."""
        stream = self.xp.cuda.Stream(non_blocking=True)
        replay = _Replay(self.xp.cuda.MemoryPool(), self.xp.cuda.Stream.null)
        self.synchronize()
        with self.xp.cuda.using_allocator(replay.pool.malloc), stream:
            call()  # compiled, and its memory in the pool, before the capture
            stream.synchronize()
            stream.begin_capture()
            try:
                call()
            finally:
                replay.graph = stream.end_capture()
        replay.graph.upload(stream)
        stream.synchronize()
        return replay

    def copy(self, to: Any, source: Any) -> None:
        """Copy an array by the runtime's own copy."""
        kind = self._runtime.memcpyDeviceToDevice
        stream = self.xp.cuda.get_current_stream()  # of a capture, where there is one
        self._runtime.memcpyAsync(to.data.ptr, source.data.ptr, to.nbytes, kind, stream.ptr)


class _Replay:
    """A launch of a CUDA graph, with the memory that is the graph's alone; both end with it.

    CuPy's pool gives nothing back of itself when it is let go of.
    """

    def __init__(self, pool: Any, stream: Any) -> None:
        self.pool, self._stream = pool, stream
        self.graph: Any = None

    def __call__(self) -> None:
        self.graph.launch(self._stream)

    def __del__(self) -> None:
        self.graph = None
        self.pool.free_all_blocks()


def told_by_driver(bus: str, fields: Mapping[str, str]) -> dict[str, str]:
    """Fields by the names that nvidia-smi has for them, of the GPU at an address of the PCI bus.

    As nvidia-smi tells them, if it is there: it counts GPUs in another order than a process sees them.
    """
    command = [
        "nvidia-smi",
        f"--id={bus}",
        f"--query-gpu={','.join(fields.values())}",
        "--format=csv,noheader,nounits",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return {}
    values = [value.strip() for line in done.stdout.splitlines()[:1] for value in line.split(",")]
    return dict(zip(fields, values, strict=False))


def unsigned(dtype: np.dtype) -> np.dtype:
    """The unsigned integers of a dtype's size, in which its bits travel unchanged."""
    return np.dtype(f"u{dtype.itemsize}")

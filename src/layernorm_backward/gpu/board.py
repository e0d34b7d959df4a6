"""The device that a campaign runs on: arrays, events for timing, CUDA graphs, description and state."""

import gc
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from layernorm_backward import peers_on_gpu
from layernorm_backward.gpu import program_cache
from layernorm_backward.host import installed
from layernorm_backward.kernels.cuda import device
from layernorm_backward.kernels.cuda.machine import Machine, Program

Call = Callable[[], None]
FLUSH = 4  # times the size of the L2 cache is read to flush it
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
    """What the experiments need of a device; work runs in the order in which it is issued."""

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
        self._modules = 0  # number of loaded modules at the last `release`

    def describe(self) -> dict[str, Any]:
        """Provenance: device, driver, versions; units in the names."""
        return {
            "gpu": self._facts["name"].decode(),
            "capability": self.xp.cuda.Device().compute_capability,
            "multiprocessors": self.machine.hardware.multiprocessors,
            "l2_bytes": self.l2_bytes,
            "memory_bytes": int(self._facts["totalGlobalMem"]),
            **query_driver(self.xp.cuda.Device().pci_bus_id, DRIVER),
            "driver_cuda": self._runtime.driverGetVersion(),
            "runtime_cuda": self._runtime.runtimeGetVersion(),
            "nvrtc": ".".join(map(str, self.xp.cuda.nvrtc.getVersion())),
            "cpu": platform.processor() or platform.machine(),
            "os": platform.platform(),
            "python": platform.python_version(),
            **{name: version for name in PACKAGES if (version := installed.version(name))},
        }

    def state(self) -> dict[str, str]:
        """Current clocks, temperature and reasons for throttling; units in the names."""
        return query_driver(self.xp.cuda.Device().pci_bus_id, STATE)

    def compile(self, programs: Iterable[Program]) -> int:
        """Compile programs for this device ahead of their first launch; returns how many failed.

        The programs are consumed one by one, as they are compiled.
        """
        return program_cache.compile_all(programs, f"sm_{self.xp.cuda.Device().compute_capability}")

    def array(self, values: np.ndarray) -> Any:
        """A copy on the device."""
        found = self.xp.empty(values.shape, values.dtype)
        found.view(unsigned(values.dtype))[...] = self.xp.asarray(values.view(unsigned(values.dtype)))
        return found

    def numpy(self, array: Any) -> np.ndarray:
        """A copy on the host."""
        return self.xp.asnumpy(array.view(unsigned(array.dtype))).view(array.dtype)

    def release(self) -> None:
        """Return memory that no array uses to the device, including that of peers."""
        gc.collect()
        if len(sys.modules) > self._modules:  # later collections skip what imports have allocated
            gc.freeze()
            self._modules = len(sys.modules)
        peers_on_gpu.release()
        self.xp.get_default_memory_pool().free_all_blocks()

    def lost(self) -> str:
        """Why the device is unusable for this process, as after an illegal address; "" where it is not."""
        try:
            self.synchronize()
        except self._runtime.CUDARuntimeError as error:
            return str(error)
        return ""

    def synchronize(self) -> None:
        """Wait until all work is done."""
        self._runtime.deviceSynchronize()

    def mark(self) -> Any:
        """An event on the stream, between the work issued before and after."""
        event = self.xp.cuda.Event()
        event.record(self.xp.cuda.Stream.null)
        return event

    def seconds(self, begin: Any, end: Any) -> float:
        """Seconds between two marks; waits until both have passed."""
        end.synchronize()
        return self.xp.cuda.get_elapsed_time(begin, end) / 1e3

    def flush(self) -> None:
        """Fill the L2 cache with other data, all clean, so that later work has nothing to write back."""
        if self._spare is None:
            self._spare = self.xp.ones(FLUSH * self.l2_bytes // 8, np.uint64), self.xp.empty((), np.uint64)
        numbers, total = self._spare
        self.xp.sum(numbers, out=total)

    def captured(self, call: Call) -> Call:
        """The call's work captured as a CUDA graph; the returned call replays it, in memory of its own."""
        stream = self.xp.cuda.Stream(non_blocking=True)
        replay = _Replay(self.xp.cuda.MemoryPool(), self.xp.cuda.Stream.null)
        self.synchronize()
        with self.xp.cuda.using_allocator(replay.pool.malloc), stream:
            call()  # compiles, and allocates memory in the pool, before the capture
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
        """Copy an array with the CUDA runtime's cudaMemcpyAsync."""
        kind = self._runtime.memcpyDeviceToDevice
        stream = self.xp.cuda.get_current_stream()  # the capturing stream, during a capture
        self._runtime.memcpyAsync(to.data.ptr, source.data.ptr, to.nbytes, kind, stream.ptr)


class _Replay:
    """Launches a CUDA graph, and owns its memory; both are freed with it.

    CuPy's memory pool does not free its blocks when it is deleted.
    """

    def __init__(self, pool: Any, stream: Any) -> None:
        self.pool, self._stream = pool, stream
        self.graph: Any = None

    def __call__(self) -> None:
        self.graph.launch(self._stream)

    def __del__(self) -> None:
        self.graph = None
        self.pool.free_all_blocks()


def query_driver(bus: str, fields: Mapping[str, str]) -> dict[str, str]:
    """Fields of a GPU from nvidia-smi, by its names for them; empty where nvidia-smi does not run.

    The GPU is named by its PCI bus address, since nvidia-smi numbers GPUs in another order than a process.
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
    """The unsigned integer dtype of the same size, for copying bits unchanged."""
    return np.dtype(f"u{dtype.itemsize}")

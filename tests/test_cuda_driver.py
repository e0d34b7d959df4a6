"""Calls of the CUDA driver, recorded by a stand-in: no GPU and no CuPy are needed."""

import ctypes
import sys
from threading import Event, Thread
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from layernorm_backward.kernels.cuda import device as cuda
from layernorm_backward.kernels.cuda.compiler import Compiled
from layernorm_backward.kernels.cuda.machine import Launch, Program

LOADED = cuda._loaded
PROGRAM = Program("backward", "backward", ("float",))
POINTER = 0x1234


class Driver(ModuleType):
    """cupy.cuda.driver: names of attributes, and what was set."""

    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
    CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9

    def __init__(self):
        super().__init__("cupy.cuda.driver")
        self.set = []

    def funcSetAttribute(self, function, attribute, value):
        self.set.append((function, attribute, value))


@pytest.fixture
def driver(monkeypatch):
    """The stand-in, for a device whose programs count as loaded."""
    driver, toolkit = Driver(), ModuleType("cupy.cuda")
    toolkit.driver = driver
    for name, module in {
        "cupy": ModuleType("cupy"),
        "cupy.cuda": toolkit,
        "cupy.cuda.driver": driver,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    cuda._driver.cache_clear()
    loaded = {}

    def load(device, program, cluster):
        return loaded.setdefault(
            (device, program, cluster), (SimpleNamespace(ptr=POINTER), {"dynamic_bytes": 0})
        )

    monkeypatch.setattr(cuda, "_loaded", load)
    yield driver
    cuda._driver.cache_clear()


@pytest.fixture
def device():
    made = object.__new__(cuda.Device)
    made._device = SimpleNamespace(id=0, use=lambda: None)
    return made


def allowed(driver):
    return [value for _, attribute, value in driver.set if attribute == 8]


def test_a_kernel_is_allowed_more_shared_memory_whenever_a_launch_needs_more(device, driver):
    for dynamic_bytes in (0, 50_000, 40_000, 50_000, 200_000, 50_000):
        device._function(PROGRAM, Launch(1, 32, dynamic_bytes=dynamic_bytes))
    assert allowed(driver) == [50_000, 200_000]
    assert {function for function, _, _ in driver.set} == {POINTER}
    assert (POINTER, 9, 100) in driver.set


def test_a_thread_does_not_reduce_the_shared_memory_that_another_requests(device, driver, monkeypatch):
    """Regression test: the driver kept the smaller size, and launches that needed the larger one failed."""
    within, less = Event(), 50_000
    other = Thread(target=lambda: device._function(PROGRAM, Launch(1, 32, dynamic_bytes=less)))
    honest = driver.funcSetAttribute

    def slow(*given):
        honest(*given)
        if not within.is_set():
            within.set()
            other.start()
            other.join(0.2)  # it waits for this thread, or goes on

    monkeypatch.setattr(driver, "funcSetAttribute", slow)
    device._function(PROGRAM, Launch(1, 32, dynamic_bytes=200_000))
    other.join()
    assert allowed(driver) == [200_000]


def test_shared_memory_is_allowed_per_cluster_size(device, driver):
    for cluster in (2, 4, 2):
        device._function(PROGRAM, Launch(cluster, 32, cluster, 100_000))
    assert allowed(driver) == [100_000, 100_000]


@pytest.mark.parametrize(("cluster", "wanted"), [(1, []), (8, []), (16, [(POINTER, 14, 1)])])
def test_a_cluster_that_is_not_portable_is_allowed_as_it_is_loaded(driver, monkeypatch, cluster, wanted):
    toolkit, function = sys.modules["cupy.cuda"], SimpleNamespace(ptr=POINTER)
    module = SimpleNamespace(load=lambda code: None, get_function={"its name": function}.get)
    toolkit.function = SimpleNamespace(Module=lambda: module)
    toolkit.Device = lambda number: SimpleNamespace(compute_capability="90")
    monkeypatch.setattr(sys.modules["cupy"], "cuda", toolkit, raising=False)
    monkeypatch.setattr(cuda, "compiled", lambda programs, arch: Compiled(b"", {PROGRAM.text: "its name"}))
    assert LOADED.__wrapped__(0, PROGRAM, cluster) == (function, {"dynamic_bytes": 0})
    assert driver.set == wanted


class Occupancy:
    """libcuda, whose only function returns a number of clusters or an error."""

    def __init__(self, found, status):
        self.found, self.status, self.asked = found, status, []

    def cuOccupancyMaxActiveClusters(self, found, function, config):
        given = ctypes.cast(config, ctypes.POINTER(cuda._Config)).contents
        self.asked.append((function.value, {name: getattr(given, name) for name, _ in given._fields_}))
        ctypes.cast(found, ctypes.POINTER(ctypes.c_int)).contents.value = self.found
        return self.status


@pytest.fixture
def library(monkeypatch):
    def put(found, status):
        library = Occupancy(found, status)
        monkeypatch.setattr(cuda.ctypes, "CDLL", lambda name: library)
        cuda._clusters.cache_clear()
        return library

    yield put
    cuda._clusters.cache_clear()


def test_the_occupancy_query_describes_the_launch(device, driver, library):
    cuda_library = library(7, 0)
    how = Launch(blocks=132 * 16, threads=256, cluster=16, dynamic_bytes=120_000)
    assert device.clusters(PROGRAM, how) == 7
    assert device.clusters(PROGRAM, how._replace(blocks=16)) == 7
    ((function, config),) = cuda_library.asked  # the grid changes nothing, so it is asked once
    assert function == POINTER
    wanted = {"grid_x": 16, "grid_y": 1, "grid_z": 1, "block_x": 256, "block_y": 1, "block_z": 1}
    assert config == wanted | {
        "dynamic_bytes": 120_000,
        "stream": None,
        "attributes": None,
        "attribute_count": 0,
    }
    assert allowed(driver) == [120_000]  # before it is asked: else no cluster would fit


def test_a_cluster_that_does_not_fit_the_device_is_no_error(device, driver, library):
    library(99, 912)
    assert device.clusters(PROGRAM, Launch(16, 256, 16)) == 0


def test_another_error_of_the_driver_is_reported(device, driver, library):
    library(99, 700)
    with pytest.raises(RuntimeError, match="cuOccupancyMaxActiveClusters: CUDA error 700"):
        device.clusters(PROGRAM, Launch(16, 256, 16))


class Launching:
    """libcuda, whose only function records a launch, the values of its arguments and its attributes."""

    def __init__(self, types, status=0):
        self.types, self.status, self.launched = types, status, []

    def cuLaunchKernelEx(self, config, function, addresses, extra):
        given = ctypes.cast(config, ctypes.POINTER(cuda._Config)).contents
        attributes = ctypes.cast(given.attributes, ctypes.POINTER(cuda._Attribute))
        values = [
            ctypes.cast(address, ctypes.POINTER(one)).contents.value
            for address, one in zip(addresses, self.types, strict=True)
        ]
        facts = {name: getattr(given, name) for name, _ in given._fields_ if name != "attributes"}
        found = [(attributes[i].which, attributes[i].value) for i in range(given.attribute_count)]
        self.launched.append((function.value, facts, found, values, extra))
        return self.status


@pytest.fixture
def launching(driver, monkeypatch):
    """Puts such a libcuda in place; CuPy's current stream is number 77."""
    stream = SimpleNamespace(ptr=77)
    monkeypatch.setattr(sys.modules["cupy.cuda"], "get_current_stream", lambda: stream, raising=False)
    monkeypatch.setattr(sys.modules["cupy"], "cuda", sys.modules["cupy.cuda"], raising=False)

    def put(*how):
        library = Launching(*how)
        monkeypatch.setattr(cuda.ctypes, "CDLL", lambda name: library)
        return library

    return put


def test_an_early_launch_has_its_attribute_and_passes_addresses_and_numbers(device, launching):
    library = launching((ctypes.c_uint64, ctypes.c_int64, ctypes.c_int32, ctypes.c_float))
    array = SimpleNamespace(data=SimpleNamespace(ptr=0x7F0012345678))
    arguments = (array, np.int64(-(2**40)), np.int32(7), np.float32(0.5))
    device.launch(PROGRAM, Launch(12, 512, dynamic_bytes=64, early=True), arguments)
    ((function, config, attributes, values, extra),) = library.launched
    assert (function, extra) == (POINTER, None)
    assert attributes == [(6, 1)]
    assert values == [0x7F0012345678, -(2**40), 7, 0.5]
    sizes = {"grid_x": 12, "grid_y": 1, "grid_z": 1, "block_x": 512, "block_y": 1, "block_z": 1}
    assert config == sizes | {"dynamic_bytes": 64, "stream": 77, "attribute_count": 1}


def test_an_early_launch_that_the_driver_refuses_is_reported(device, launching):
    launching((), 719)
    with pytest.raises(RuntimeError, match="cuLaunchKernelEx: CUDA error 719"):
        device.launch(PROGRAM, Launch(1, 32, early=True), ())


def test_the_drivers_library_is_loaded_once(device, driver, launching, monkeypatch):
    library, looked = launching(()), []
    monkeypatch.setattr(cuda.ctypes, "CDLL", lambda name: looked.append(name) or library)
    for _ in range(3):
        device.launch(PROGRAM, Launch(1, 32, early=True), ())
    assert looked == ["libcuda.so.1"]


@pytest.mark.parametrize("what", ["clusters", "launch"])
def test_the_device_is_bound_to_a_thread_before_the_driver_is_called(
    device, driver, launching, what, monkeypatch
):
    """Where all memory comes from CuPy's pool, no earlier call has bound it to a new thread."""
    names = ("cuOccupancyMaxActiveClusters", "cuLaunchKernelEx")
    called = []
    library = SimpleNamespace(**{name: lambda *_, name=name: called.append(name) or 0 for name in names})
    monkeypatch.setattr(cuda.ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(driver, "funcSetAttribute", lambda *_: called.append("cuFuncSetAttribute"))
    device._device.use = lambda: called.append("cudaSetDevice")
    cuda._clusters.cache_clear()
    how = Launch(16, 256, 16, 100_000, early=True)
    _ = device.clusters(PROGRAM, how) if what == "clusters" else device.launch(PROGRAM, how, ())
    assert called[0] == "cudaSetDevice"
    assert set(called) & set(names) and "cuFuncSetAttribute" in called

"""The errors of CUDA kernels that cannot run: no CuPy, no device, an old one, no memory, invalid arrays."""

import ctypes
import sys
from importlib.machinery import ModuleSpec
from types import SimpleNamespace

import numpy as np
import pytest

from emulated import needs_compiler
from layernorm_backward.kernels import KERNELS, checks, device_missing, missing
from layernorm_backward.kernels.cuda import device
from layernorm_backward.kernels.cuda.emulation import Emulation

CUDA = [name for name in KERNELS if KERNELS[name].device == "cuda"]
ABSENT = "there is no CUDA device here, or no driver for it"
ONES = np.ones(4)


class CUDARuntimeError(RuntimeError):
    """As CuPy's, with the runtime's status."""

    def __init__(self, status):
        super().__init__(f"cudaError {status}")
        self.status = status


class DeviceArray:
    """Stands for an array on a device."""

    __module__, __qualname__ = "cupy", "ndarray"


def fake_cupy(monkeypatch, *, count=1, capability="90", status=None, compiler=lambda: (12, 8)):
    """A CuPy whose runtime finds so many devices, or raises an error of this status."""

    def devices():
        if status is not None:
            raise CUDARuntimeError(status)
        return count

    facts = {"multiProcessorCount": 132, "sharedMemPerMultiprocessor": 228 << 10}
    runtime = SimpleNamespace(
        getDeviceCount=devices,
        getDevice=lambda: 0,
        getDeviceProperties=lambda number: facts,
        CUDARuntimeError=CUDARuntimeError,
    )
    current = SimpleNamespace(id=0, compute_capability=capability)
    cupy = SimpleNamespace(
        cuda=SimpleNamespace(
            runtime=runtime, Device=lambda *_: current, nvrtc=SimpleNamespace(getVersion=compiler)
        ),
        __spec__=ModuleSpec("cupy", None),
        ndarray=DeviceArray,
        empty=np.empty,
        ascontiguousarray=np.ascontiguousarray,
        may_share_memory=np.may_share_memory,
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    device._known.cache_clear()
    return cupy


@pytest.fixture(autouse=True)
def forgotten():
    """No device is remembered from one test to the next."""
    yield
    device._known.cache_clear()


def test_without_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert device_missing() == "CuPy is not installed"


def test_a_home_that_cupy_cannot_write_to_is_reported(monkeypatch):
    class Refusing:
        def find_spec(self, name, *_):
            if name == "cupy":
                raise PermissionError(13, "Permission denied", "/home/.cupy")

    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Refusing(), *sys.meta_path])
    told = "[Errno 13] Permission denied: '/home/.cupy'; CUPY_CACHE_DIR names another folder"
    assert device_missing() == f"CuPy cannot be imported: {told}"


@pytest.mark.parametrize("how", [{"count": 0}, {"status": 35}, {"status": 100}])
def test_without_a_device_or_a_driver(monkeypatch, how):
    fake_cupy(monkeypatch, **how)
    assert device_missing() == ABSENT


def test_the_error_of_a_failing_device_is_reported(monkeypatch):
    fake_cupy(monkeypatch, status=46)
    assert device_missing() == "the CUDA device cannot be used: cudaError 46"


def test_a_device_that_is_too_old(monkeypatch):
    fake_cupy(monkeypatch, capability="75")
    assert device_missing() == "the CUDA device has compute capability 7.5; needed: 8.0 or newer"


@pytest.mark.parametrize(
    ("capability", "version", "reason"),
    [
        ("90", (12, 8), ""),
        ("90", (12, 6), "NVRTC, is that of CUDA 12.6; needed for this device: 12.8 or newer"),
        ("89", (12, 6), ""),
        ("100", (13, 0), ""),
    ],
)
def test_a_compiler_that_is_too_old_for_clusters(monkeypatch, capability, version, reason):
    fake_cupy(monkeypatch, capability=capability, compiler=lambda: version)
    assert device_missing() == (reason and f"the CUDA compiler, {reason}")


def test_a_compiler_that_is_not_there(monkeypatch):
    def absent():
        raise RuntimeError("CuPy failed to load libnvrtc.so.13")

    fake_cupy(monkeypatch, compiler=absent)
    told = "the CUDA compiler, NVRTC, cannot be used: CuPy failed to load libnvrtc.so.13"
    assert device_missing() == told


@pytest.mark.parametrize("name", CUDA)
def test_a_kernel_does_not_fall_back_silently(monkeypatch, name):
    fake_cupy(monkeypatch, count=0)
    assert missing(KERNELS[name])
    with pytest.raises(RuntimeError, match=ABSENT):
        KERNELS[name].forward(np.ones((3, 4)), ONES, ONES, 1e-5)


@pytest.mark.parametrize(
    ("capability", "hopper"), [("80", False), ("89", False), ("90", True), ("120", True)]
)
def test_the_capabilities_of_a_device_are_read_from_it(monkeypatch, capability, hopper):
    fake_cupy(monkeypatch, capability=capability)
    assert not device_missing()
    assert device.current().hardware == (132, 228 << 10, hopper)


@pytest.mark.parametrize("name", CUDA)
def test_arrays_of_the_host_are_refused(monkeypatch, name):
    fake_cupy(monkeypatch)
    message = "x is a numpy.ndarray; allowed: cupy.ndarray on the current device, cuda:0"
    with pytest.raises(TypeError, match=message):
        KERNELS[name].forward(np.ones((3, 4)), ONES, ONES, 1e-5)


def failing_at(number):
    """An emulation with memory for so many arrays, and the arrays that it has allocated."""
    machine, allocated = Emulation(), []

    def empty(shape, dtype):
        if len(allocated) == number:
            raise MemoryError("out of memory allocating 5 bytes")
        allocated.append(np.empty(shape, dtype))
        return allocated[-1]

    machine.arrays = machine.arrays._replace(empty=empty)
    return machine, allocated


@needs_compiler
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("name", ["cuda_fused", "cuda_separate"])
def test_out_of_memory_leaves_the_results_as_they_were(name, step):
    """Whichever allocation fails; a result that is not contiguous takes one more allocation."""
    kernel, x = KERNELS[name], np.ones((6, 4))
    _, saved = kernel.forward(x, ONES, ONES, 1e-5, machine=Emulation())
    y, *gradients = results = [np.empty((*shape, 4 * step))[..., ::step] for shape in ((6,), (6,), (), ())]
    passes = (
        lambda machine: kernel.forward(x, ONES, ONES, 1e-5, y, machine=machine),
        lambda machine: kernel.backward(x, saved, tuple(gradients), machine=machine),
    )
    for run in passes:
        machine, allocated = failing_at(None)
        run(machine)
        for number in range(len(allocated)):
            for result in results:
                result[...] = 7
            with pytest.raises(MemoryError, match="allocating 5 bytes"):
                run(failing_at(number)[0])
            assert [bool((result == 7).all()) for result in results] == [True] * 4, number


@pytest.mark.parametrize("name", CUDA)
def test_an_array_on_another_device_is_refused(monkeypatch, name):
    fake_cupy(monkeypatch)
    elsewhere = DeviceArray()
    elsewhere.device = "cuda:1"
    with pytest.raises(TypeError, match=r"allowed: cupy\.ndarray on the current device, cuda:0"):
        KERNELS[name].forward(elsewhere, ONES, ONES, 1e-5)


@pytest.mark.parametrize(
    ("address", "strides", "belongs"),
    [(4096, (16, 4), True), (4100, (16, 4), True), (4097, (16, 4), False), (4096, (18, 4), False)],
)
def test_a_view_whose_elements_lie_where_no_kernel_reads_them_is_refused(
    monkeypatch, address, strides, belongs
):
    cupy = fake_cupy(monkeypatch)
    arrays = device.current().arrays
    array = DeviceArray()
    array.device, array.itemsize = cupy.cuda.Device(), 4
    array.data, array.strides = SimpleNamespace(ptr=address), strides
    assert arrays.belongs(array) == belongs
    if not belongs:
        told = r"x is a cupy\.ndarray; allowed: .* cuda:0, each element at a multiple of its size"
        with pytest.raises(TypeError, match=told):
            checks.forward(array, ONES, ONES, 1e-5, arrays)


def columns(cupy, begin, width, of=10):
    """Some columns of an array on a device, at addresses that nothing here may read."""
    array = DeviceArray()
    array.device, array.itemsize, array.dtype = cupy.cuda.Device(), 4, np.dtype(np.float32)
    array.shape, array.strides, array.size = (4, width), (4 * of, 4), 4 * width
    array.data, array.nbytes = SimpleNamespace(ptr=4096 + 4 * begin), 16 * width
    array.flags = SimpleNamespace(c_contiguous=width == of)
    return array


@pytest.mark.parametrize(("begin", "apart"), [(5, True), (4, False), (0, False)])
def test_columns_of_one_array_on_a_device_may_be_input_and_output(monkeypatch, begin, apart):
    """As on the CPU: their bounds overlap, but they need not share an element."""
    cupy = fake_cupy(monkeypatch)
    cupy.may_share_memory = lambda one, other: True  # by bounds
    arrays = device.current().arrays
    x, out = columns(cupy, 0, 5), columns(cupy, begin, 5)
    wanted = ("out", out, x.shape, x.dtype, (x,), arrays)
    if apart:
        assert checks.output(*wanted) is out
    else:
        with pytest.raises(ValueError, match="out overlaps another array of the call"):
            checks.output(*wanted)


def test_a_launch_is_described_to_the_driver_as_in_cuda_h():
    """CUlaunchConfig: seven unsigned numbers, a stream, attributes and their count, on 64 bits."""
    config = device._Config
    assert [getattr(config, name).offset for name in ("grid_x", "block_x", "dynamic_bytes")] == [0, 12, 24]
    assert [getattr(config, name).offset for name in ("stream", "attributes", "attribute_count")] == [
        32,
        40,
        48,
    ]
    assert ctypes.sizeof(config) == 56

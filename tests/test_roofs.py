"""The roofs compute what they say, with the instructions that they say."""

import platform

import numpy as np
import pytest
from numba import config, get_num_threads, njit

from layernorm_backward import roofs, stopwatch
from layernorm_backward.aligned import aligned_empty
from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of, sum_dtype
from layernorm_backward.roofs import STREAMS, flat_streams, peak, stream

SIZES = [0, 1, 15, 16, 17, 1000, 4099]


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("operation", STREAMS)
def test_streams_write_every_element_and_no_other(operation, dtype):
    rng = np.random.default_rng(3)
    for size in SIZES:
        whole = aligned_empty(size + 64, dtype_of(dtype))
        whole[:] = -7
        b, c = (rng.standard_normal(size).astype(dtype_of(dtype)) for _ in range(2))
        stream(operation, whole[:size], b, c)()
        wide = sum_dtype(dtype_of(dtype))
        triad = (b.astype(wide) + wide.type(roofs.SCALE) * c.astype(wide)).astype(dtype_of(dtype))
        np.testing.assert_array_equal(whole[:size], b if operation.startswith("copy") else triad)
        assert (whole[size:] == -7).all()


@pytest.mark.parametrize(
    "spoilt",
    [lambda b: b[:-1], lambda b: b.astype(np.float32), lambda b: np.repeat(b, 2)[::2]],
    ids=["shorter", "float32", "strided"],
)
def test_a_stream_refuses_arrays_that_it_would_read_past(spoilt):
    a, b = aligned_empty(64, "float64"), np.ones(64)
    for arrays in ((a, spoilt(b), b), (a, b, spoilt(b))):
        with pytest.raises(
            ValueError, match=r"^the arrays hold 64 of float64, .*; allowed: C-contiguous ones"
        ):
            stream("triad", *arrays)


@pytest.mark.parametrize("operation", STREAMS)
def test_one_thread_and_two_write_the_same(operation):
    b, c = np.random.default_rng(4).standard_normal((2, 1003))
    results = []
    for count in (1, min(2, config.NUMBA_NUM_THREADS)):
        a = aligned_empty(1003, "float64")
        with stopwatch.threads(count):
            stream(operation, a, b, c)()
        results.append(a)
    np.testing.assert_array_equal(*results)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instructions are those of x86-64")
def test_only_non_temporal_streams_use_non_temporal_stores():
    a, b = aligned_empty(64, "float64"), np.ones(64)
    assembly = {}
    for function, more in ((flat_streams._copy_nt, (32, 1)), (flat_streams._copy, ())):
        fresh = njit(function.py_func)  # what comes from Numba's cache keeps no assembly
        fresh(a, b, *more)
        assembly[function] = "".join(fresh.inspect_asm().values())
    assert "movnt" in assembly[flat_streams._copy_nt] and "sfence" in assembly[flat_streams._copy_nt]
    assert "movnt" not in assembly[flat_streams._copy]
    assert "memcpy" not in assembly[flat_streams._copy]  # it may store past the caches by itself


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_multiply_add_runs_the_chains_it_counts(dtype):
    assert roofs.multiply_adds(dtype, 0)() % (peak.CHAINS * 0.5) == 0
    fixed_point = peak.CHAINS * get_num_threads()  # v = v/2 + 1/2 -> 1
    assert roofs.multiply_adds(dtype, 100)() == fixed_point
    lanes = peak.vector_bytes() // np.dtype(dtype).itemsize
    assert roofs.operations(dtype, 3, threads=2) == 2 * lanes * peak.CHAINS * 3 * 2


@pytest.mark.parametrize("shape", [(3, 5), 7, (1, 1)])
def test_aligned_arrays_are_contiguous_and_aligned(shape):
    for align in (64, 4096):
        array = aligned_empty(shape, "float32", align)
        assert array.shape == np.empty(shape).shape
        assert array.ctypes.data % align == 0
        assert array.flags.c_contiguous and array.flags.writeable


def test_an_unaligned_target_is_refused_by_non_temporal_stores_only():
    a = aligned_empty(65, "float64")[1:]
    with pytest.raises(ValueError, match="a has address 8 modulo 64; allowed: 0"):
        stream("copy_nt", a, np.ones(64))
    stream("copy", a, np.ones(64))()
    assert (a == 1).all()


def test_a_triad_without_its_second_source_is_refused():
    with pytest.raises(ValueError, match="triad reads two arrays, c is None"):
        stream("triad", np.ones(4), np.ones(4))


def test_an_unknown_operation_is_refused_with_those_there_are():
    with pytest.raises(
        ValueError, match="unknown operation 'scale'; allowed: copy, copy_nt, copy_pages, triad, triad_nt"
    ):
        stream("scale", np.ones(4), np.ones(4))


def test_missing_non_temporal_stores_have_a_reason(monkeypatch):
    monkeypatch.setattr(flat_streams.platform, "machine", lambda: "riscv64")
    flat_streams.non_temporal_missing.cache_clear()
    try:
        assert "riscv64" in roofs.missing("copy_nt") and "riscv64" in roofs.missing("copy_pages")
        assert roofs.missing("copy") == ""
        with pytest.raises(ValueError, match="riscv64"):
            stream("triad_nt", aligned_empty(4, "float64"), np.ones(4), np.ones(4))
    finally:
        flat_streams.non_temporal_missing.cache_clear()

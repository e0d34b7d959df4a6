"""The board that is a GPU, with stand-ins for CuPy and its runtime."""

import re
from contextlib import AbstractContextManager, nullcontext
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from layernorm_backward.gpu.board import DRIVER, FLUSH, Gpu, query_driver
from layernorm_backward.kernels.cuda import device


def board(runtime, cuda=None):
    """A GPU of which only the runtime and `cupy.cuda` are there."""
    gpu = Gpu.__new__(Gpu)
    gpu._runtime, gpu.xp = SimpleNamespace(**runtime), SimpleNamespace(cuda=cuda)
    return gpu


def test_the_memory_of_a_graph_is_given_back_after_the_graph():
    done = []

    class Graph:
        def upload(self, stream):
            done.append("uploaded")

        def launch(self, stream):
            done.append(stream)

        def __del__(self):
            done.append("graph gone")

    class Stream(AbstractContextManager):
        null = "null stream"

        def __init__(self, non_blocking):
            assert non_blocking

        def __exit__(self, *_):
            pass

        def synchronize(self):
            pass

        def begin_capture(self):
            done.append("captured")

        def end_capture(self):
            return Graph()

    pool = SimpleNamespace(malloc="malloc", free_all_blocks=lambda: done.append("memory given back"))
    cuda = SimpleNamespace(MemoryPool=lambda: pool, Stream=Stream, using_allocator=lambda _: nullcontext())
    replay = board({"deviceSynchronize": lambda: None}, cuda).captured(lambda: done.append("call"))
    replay()
    assert done == ["call", "captured", "call", "uploaded", "null stream"]
    del replay
    assert done[5:] == ["graph gone", "memory given back"]


def test_a_device_is_lost_where_it_raises_an_error_when_waited_for():
    class CUDARuntimeError(RuntimeError):
        pass

    def synchronize():
        raise CUDARuntimeError("cudaErrorIllegalAddress")

    assert board({"deviceSynchronize": lambda: None, "CUDARuntimeError": CUDARuntimeError}).lost() == ""
    lost = board({"deviceSynchronize": synchronize, "CUDARuntimeError": CUDARuntimeError}).lost()
    assert lost == "cudaErrorIllegalAddress"


HEADER = "nvidia/cu13/include/cuda.h"


def test_the_attribute_of_large_clusters_is_that_of_the_header():
    try:
        header = Path(metadata.distribution("nvidia-cuda-runtime").locate_file(HEADER))
        text = header.read_text(encoding="utf-8")
    except (metadata.PackageNotFoundError, FileNotFoundError):
        pytest.skip("CUDA's headers are not installed")
    (number,) = re.findall(r"CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = (\d+),", text)
    assert int(number) == device._NON_PORTABLE_CLUSTER


def test_the_driver_is_asked_about_the_gpu_that_is_used(tmp_path, monkeypatch):
    """nvidia-smi counts GPUs in an order of its own."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text('#!/bin/sh\n[ "$1" = --id=0000:1B:00.0 ] && echo "580.1, 1980, 2619"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    wanted = {"driver": "580.1", "sm_mhz": "1980", "memory_mhz": "2619"}
    assert query_driver("0000:1B:00.0", DRIVER) == wanted
    assert query_driver("0000:00:00.0", DRIVER) == {}


def test_the_cache_is_emptied_by_reading_what_was_written_long_before():
    """Dirty lines would be written back in the time of what comes next."""
    read, gpu = [], board({})
    gpu.xp = SimpleNamespace(ones=np.ones, empty=np.empty, sum=lambda array, out: read.append(array))
    gpu.l2_bytes, gpu._spare = 64, None
    gpu.flush()
    gpu.flush()
    assert [array.nbytes for array in read] == 2 * [FLUSH * 64]
    assert read[0] is read[1]

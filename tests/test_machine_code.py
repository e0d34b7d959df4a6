"""The inspection of machine code sees what it is asked for, in small kernels that have it."""

import os
import shutil
from collections import Counter
from importlib import metadata

import pytest

import machine_code
from layernorm_backward.kernels.cuda.machine import SOURCES, Program
from machine_code import InspectionError, MachineCode

MISSING = machine_code.missing()
with_wheels = pytest.mark.skipif(bool(MISSING) and not os.environ.get("CI"), reason=MISSING)
PLANTED = """
#include "primitives.cuh"
#if __CUDA_ARCH__ >= 900
#define CLUSTER(N) __cluster_dims__(N, 1, 1)
#else
#define CLUSTER(N)
#endif
template <int N>
__global__ void __launch_bounds__(1024, 2) spilling(const volatile float* from, float* to) {
    float held[N];
#pragma unroll
    for (int i = 0; i < N; ++i) held[i] = from[i];
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = held[N - 1 - i];
}
template <int N>
__global__ void indexing(const float* from, float* to, int n) {
    float held[N];
    for (int i = 0; i < n; ++i) held[i % N] = from[i];
    to[0] = held[n % N];
}
template <int N>
__global__ void adding(float* to) { atomicAdd(to, N); }
template <int N>
__global__ void taking(int* from, int* to) { *to = atomicAdd(from, N); }
template <int N>
__global__ void adding_inside(int* to) {
    __shared__ int sum;
    sum = 0;
    __syncthreads();
    atomicAdd(&sum, N);
    __syncthreads();
    *to = sum;
}
template <int N>
__global__ void adding_somewhere(int* to, int which) {
    __shared__ int sum;
    sum = 0;
    int* there = which ? to : &sum;
    *to = atomicAdd(there, N) + sum;
}
template <int N>
__global__ void scalar(const float* from, float* to) { to[threadIdx.x] = from[threadIdx.x + N]; }
template <int N>
__global__ void quads(const Quad* from, Quad* to) { store_stream(to + N, load_stream(from)); }
template <int N>
__global__ void times(const double* from, double* to) { *to = *from * N; }
template <int N>
__global__ void plus(const double* from, double* to) { *to = *from + N; }
template <int N>
__global__ void fused(const double* from, double* to) { *to = *from * *to + N; }
template <int N>
__global__ void less(const double* from, double* to) { if (*from < N) *to = 0; }
template <int N>
__global__ void __launch_bounds__(N) meeting(float* to) {
    __shared__ float held[N];
    held[threadIdx.x] = to[threadIdx.x];
    __syncthreads();
    to[threadIdx.x] = held[N - 1 - threadIdx.x];
}
template <int N>
__global__ void CLUSTER(N) together(int* to) { *to = cluster_rank(); }
template <int N>
__global__ void bulk(const float* from, Gate* gate) { copy_bulk(dynamic_shared(), from, N, gate); }
template <int N>
__global__ void bulk_adding(int* to) {
    __shared__ __align__(16) int sums[N];
    sums[threadIdx.x] = 1;
    __syncthreads();
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], %2;" ::"l"(to),
                 "r"(shared_address(sums)), "n"(sizeof sums) : "memory");
}
"""
SPILLING = {"spilling", "indexing"}
ADDING = {"adding", "taking", "adding_inside", "adding_somewhere"}
DOUBLE = {"times", "plus", "fused", "less"}
EVERYWHERE = {*SPILLING, *ADDING, *DOUBLE, "meeting", "scalar", "quads"}
KERNELS = {"sm_80": EVERYWHERE, "sm_90": {*EVERYWHERE, "together", "bulk", "bulk_adding"}}
SIZES = {"spilling": 64, "meeting": 64, "indexing": 8, "together": 4, "bulk": 64, "bulk_adding": 4}


@pytest.fixture(scope="module", params=KERNELS)
def planted(request, tmp_path_factory) -> dict[str, MachineCode]:
    """The planted kernels compiled for each architecture."""
    folder = tmp_path_factory.mktemp("sources")
    (folder / "planted.cuh").write_text(PLANTED, encoding="utf-8")
    shutil.copytree(SOURCES / "device", folder / "device")
    programs = {
        name: Program("planted", name, (str(SIZES.get(name, 3)),)) for name in sorted(KERNELS[request.param])
    }
    codes = machine_code.inspect(list(programs.values()), request.param, folder)
    return {name: codes[program] for name, program in programs.items()}


@with_wheels
def test_a_stack_is_seen(planted):
    for name in SPILLING:
        code = planted[name]
        assert min(code.stack_bytes, code.count("LDL"), code.count("STL")) > 0
    assert {name for name, code in planted.items() if code.stack_bytes} == SPILLING
    assert planted["spilling"].registers == 32


@with_wheels
def test_atomics_are_seen(planted):
    found = {name for name, code in planted.items() if code.count(*machine_code.ATOMICS)}
    assert found == ADDING | ({"bulk_adding"} & planted.keys())


@with_wheels
def test_widths_are_seen(planted):
    opcodes = ("LDG", "LDG.E.EF.128", "STG", "STG.E.EF.128")
    assert [planted["scalar"].count(opcode) for opcode in opcodes] == [1, 0, 1, 0]
    assert [planted["quads"].count(opcode) for opcode in opcodes] == [1, 1, 1, 1]


@with_wheels
def test_arithmetic_in_double_is_seen(planted):
    assert {name for name, code in planted.items() if code.count(*machine_code.DOUBLES)} == DOUBLE


@with_wheels
def test_shared_memory_is_counted_without_the_drivers(planted):
    assert (planted["meeting"].shared_bytes, planted["scalar"].shared_bytes) == (64 * 4, 0)


@with_wheels
def test_threads_clusters_and_bulk_copies_are_seen(planted):
    assert [planted[name].threads for name in ("meeting", "spilling", "scalar")] == [64, 1024, 1024]
    clusters = {name: code.cluster for name, code in planted.items() if code.cluster > 1}
    copies = [name for name, code in planted.items() if code.count("UBLKCP")]
    assert (clusters, copies) == (({"together": 4}, ["bulk"]) if "bulk" in planted else ({}, []))


def test_opcodes_are_counted_by_whole_names():
    opcodes = Counter({"LDG.E": 1, "LDG.E.EF.128": 2, "LDGSTS.E.128": 4, "REDUX.SUM": 8})
    code = MachineCode(32, 0, 0, 64, 1, (), opcodes)
    found = [code.count(*names) for names in (("LDG",), ("LDG.E.EF",), ("RED",), ("LDG", "LDG.E", "LDGSTS"))]
    assert found == [3, 2, 0, 7]


@with_wheels
def test_a_program_that_does_not_compile_is_told():
    with pytest.raises(RuntimeError, match="no_such_kernel"):
        machine_code.inspect([Program("columns", "no_such_kernel", ("float",))], "sm_90")


def test_without_wheels(monkeypatch):
    def nothing(wheel):
        raise metadata.PackageNotFoundError(wheel)

    monkeypatch.setattr(metadata, "files", nothing)
    monkeypatch.setattr(shutil, "which", lambda tool: None)
    wheels = "cupy-cuda13x, nvidia-cuda-nvrtc, nvidia-cuda-cuobjdump, nvidia-cuda-nvdisasm"
    assert machine_code.missing() == f"not installed: {wheels} (make cuda)"
    with pytest.raises(InspectionError, match="not installed"):
        machine_code.inspect([], "sm_90")


def test_tools_may_stand_on_the_path(monkeypatch):
    def compiler_only(wheel):
        if wheel not in machine_code.COMPILER:
            raise metadata.PackageNotFoundError(wheel)
        return []

    monkeypatch.setattr(metadata, "files", compiler_only)
    monkeypatch.setattr(shutil, "which", lambda tool: f"/opt/{tool}")
    assert machine_code.missing() == ""

"""numba_fused on other processors: the same bits with the smallest vectors of x86-64; code for AArch64."""

import os
import platform
import re
import subprocess
import sys

import llvmlite.binding as llvm
import numpy as np
import pytest
from numba import intp, njit, typeof
from numba.core.codegen import CPUCodeLibrary

from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of
from layernorm_backward.kernels import half, lane_memory, lanes

PROGRAM = """
import hashlib
import numpy as np
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.kernels import numba_fused
digest = hashlib.sha256()
for hidden in (5, 64, 129):
    rng = np.random.default_rng(hidden)
    x, dy = (rng.normal(3, 2, (40, hidden)).astype(dtype_of("{dtype}")) for _ in range(2))
    x[7] *= 1e-6
    gamma, beta = (rng.normal(1, 1, hidden).astype(x.dtype) for _ in range(2))
    y, saved = numba_fused.forward(x, gamma, beta, 1e-5)
    for array in (y, saved.mean, saved.rstd, *numba_fused.backward(dy, saved)):
        digest.update(array.tobytes())
print(digest.hexdigest())
"""
SSE2 = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_OPT": "1"}  # 1: to compile sooner
ZEN = SSE2 | {"NUMBA_CPU_NAME": "znver1", "NUMBA_CPU_FEATURES": "-sse4a"}  # which no other maker has
BITS = {  # of the program's results, on x86-64 with AVX-512 and on AArch64
    "float64": "ab6d1c7161e869cb2cb62c2a72959bd865cbffba4576d8b20e35647ea88d0357",
    "float32": "9bea0a94aa7e216c3969a97ab314f6494e224aa79d8ea4ea3d2d84f53b6d85e3",
    "float16": "5342a31e8f891de6c78d5d44c6ead60332ab258740bf9255b516fc35d36d653b",
    "bfloat16": "96741ec9af9e1af7530ffcf3ea259ee2177fbaaa807977bef3046b98a3f593f9",
}


def digest(dtype: str, **environment: str) -> str:
    program = PROGRAM.format(dtype=dtype)
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="processors of x86-64")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("processor", [SSE2, ZEN], ids=["the smallest vectors", "a Zen"])
def test_another_processor_gives_the_same_bits(processor, dtype, tmp_path):
    """16 bits, since a processor without AVX-512 or AVX2 may lack their conversions as well."""
    elsewhere = digest(dtype, NUMBA_CACHE_DIR=str(tmp_path), **processor)
    assert len(elsewhere) == 64
    assert elsewhere == digest(dtype)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_every_processor_gives_the_bits_that_others_gave(dtype):
    """Where the order of a sum is changed on purpose, determine the bits again on two kinds of processor."""
    assert digest(dtype) == BITS[dtype]


def normalize(x, y, count):
    """One line by the primitives of numba_fused: masked load, sums, root, whole and partial stores, fence."""
    like = lanes.zeros(x, 1)
    d = lanes.mask_tail(lane_memory.load(x, 0, 0, count, like), count)
    size = lanes.totals(lanes.full(1.0, like))
    var = lanes.broadcast(lanes.totals(d * d) / size, like)
    result = d / lanes.sqrt(lanes.select_greater(var, like, var, lanes.full(1.0, like)))
    result = lanes.fma(result, d, d * d + d)
    lane_memory.prefetch(x, 64, like)
    lane_memory.stream(result, y, 0, 0)
    lane_memory.store(result, y, 64, 0, count)
    lane_memory.fence()


def aarch64_assembly(function, dtype: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """LLVM's code for AArch64 of what Numba hands over to it here, before any of it is made for x86."""
    texts, optimize = [], CPUCodeLibrary._optimize_final_module

    def kept(library):
        optimize(library)
        texts.append(str(library._final_module))

    monkeypatch.setattr(CPUCodeLibrary, "_optimize_final_module", kept)
    array = typeof(lane_memory.as_stored(np.zeros(1, dtype_of(dtype))))
    njit(function).compile((array, array, intp))
    counts = r"^define [^\n]*(@NRT_\w+)\(ptr[^\n]*\{.*?^}"  # of references: already made for x86
    text = re.sub(counts, r"declare void \1(ptr)", texts[-1], flags=re.DOTALL | re.MULTILINE)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = "aarch64-unknown-linux-gnu"
    machine = llvm.Target.from_triple(triple).create_target_machine(opt=3)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = triple, str(machine.target_data)
    return machine.emit_assembly(module)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_aarch64_has_an_instruction_for_all_of_it(dtype, monkeypatch):
    """Streaming stores as pairs, a full fence, conversions; no library is called, and only `fma` is fused."""
    monkeypatch.setattr(lane_memory.platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(half, "instructions", lambda context: ("aarch64",))
    code = aarch64_assembly(normalize, dtype, monkeypatch)
    words, registers = set(code.split()), {"float64": 4, "float32": 4}.get(dtype, 8)
    assert words >= {"stnp", "dmb", "prfm"}
    assert ({"fcvtl", "fcvtn"} <= words) == (dtype == "float16")
    assert code.split().count("fmla") == registers
    assert not {word for word in words if word.startswith(("fmadd", "fmls", "fmsub", "fnm"))}
    assert "llvm." not in code and "hfsf2" not in code and "sfhf2" not in code and "sfence" not in code

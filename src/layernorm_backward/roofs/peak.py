"""The peak rate of multiply-adds: chains of vectors that stay in registers, in LLVM IR through Numba.

All code compiled into `multiply_adds` is in this file, the only one that Numba's cache checks for edits.
"""

from functools import cache

import llvmlite.binding as llvm
from llvmlite import ir
from numba import njit, prange
from numba.core import cgutils
from numba.extending import intrinsic

# Independent chains: 4 cycles of latency times 2 units a cycle need 8; 10 fit the 16 registers of AVX.
CHAINS = 10
_INT32 = ir.IntType(32)


@cache
def vector_bytes() -> int:
    """Width of the widest vector registers here: 64 with AVX-512, 32 with AVX, else 16 (SSE, NEON)."""
    features = llvm.get_host_cpu_features()
    return 64 if features.get("avx512f") else 32 if features.get("avx") else 16


@intrinsic
def _chains(typingctx, a, b, rounds):
    """`rounds` of v = v*a + b on CHAINS independent vectors in registers; one lane of their sum."""
    lanes = vector_bytes() // (a.bitwidth // 8)

    def emit(context, builder, signature, arguments):
        factor, addend = (_splat(builder, arguments[k], lanes) for k in (0, 1))
        registers = [cgutils.alloca_once_value(builder, addend) for _ in range(CHAINS)]
        with cgutils.for_range(builder, arguments[2]):
            for register in registers:
                builder.store(_fused(builder, builder.load(register), factor, addend), register)
        total = builder.load(registers[0])
        for register in registers[1:]:
            total = builder.fadd(total, builder.load(register))
        return builder.extract_element(total, ir.Constant(_INT32, 0))

    return a(a, b, rounds), emit


def _splat(builder, value, lanes):
    vector = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    first = builder.insert_element(vector, value, ir.Constant(_INT32, 0))
    return builder.shuffle_vector(first, vector, ir.Constant(ir.VectorType(_INT32, lanes), [0] * lanes))


def _fused(builder, x, factor, addend):
    lanes, number = x.type.count, "f64" if x.type.element == ir.DoubleType() else "f32"
    kind = ir.FunctionType(x.type, [x.type] * 3)
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{lanes}{number}")
    return builder.call(function, [x, factor, addend])


@njit(parallel=True, cache=True)
def multiply_adds(a, b, rounds, parts):
    """`rounds` of CHAINS vector multiply-adds in each of `parts` parts; the sum of their results."""
    total = a * 0
    for _ in prange(parts):
        total += _chains(a, b, rounds)
    return total

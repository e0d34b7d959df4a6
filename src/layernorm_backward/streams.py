"""Vector loops for the roofs that plain Numba cannot express: non-temporal stores and chains of FMA.

Each function here is a Numba intrinsic that emits a few lines of LLVM IR on vectors of the host's width.
A non-temporal store writes a whole cache line without reading it first (no write-allocate). It must be
aligned to its own size, and is ordered by a fence when all is written.
"""

import platform
from functools import cache

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LINE = 64  # bytes a non-temporal store writes, in as many instructions as the host's vectors need
# Independent chains: 4 cycles of latency times 2 units a cycle need 8; 10 fit the 16 registers of AVX.
CHAINS = 10
_INT32 = ir.IntType(32)


@cache
def vector_bytes() -> int:
    """Width of the widest vector registers here: 64 with AVX-512, 32 with AVX, else 16 (SSE, NEON)."""
    features = llvm.get_host_cpu_features()
    return 64 if features.get("avx512f") else 32 if features.get("avx") else 16


@cache
def non_temporal_missing() -> str:
    """Empty where non-temporal stores can be made, else the reason why they cannot."""
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64", "aarch64", "arm64"):
        return ""
    return f"no non-temporal store is known for the architecture {machine}"


@intrinsic
def stream_copy(typingctx, a, b, i):
    """a[i:i+n] = b[i:i+n] for one line of n elements, stored past the caches; a[i] is at a multiple of 64."""

    def emit(context, builder, signature, arguments):
        target, source = (_line(context, builder, signature, arguments, k) for k in (0, 1))
        _store_non_temporal(builder, _load(builder, source, a.dtype), target)
        return context.get_dummy_value()

    return types.void(a, b, i), emit


@intrinsic
def stream_triad(typingctx, a, b, c, s, i):
    """a[i:i+n] = b[i:i+n] + s*c[i:i+n] for one line of n elements, stored past the caches."""

    def emit(context, builder, signature, arguments):
        target, left, right = (_line(context, builder, signature, arguments, k) for k in (0, 1, 2))
        scale = _splat(builder, arguments[3], LINE // (a.dtype.bitwidth // 8))
        scaled = builder.fmul(scale, _load(builder, right, a.dtype))
        _store_non_temporal(builder, builder.fadd(_load(builder, left, a.dtype), scaled), target)
        return context.get_dummy_value()

    return types.void(a, b, c, s, i), emit


@intrinsic
def fence(typingctx):
    """Order the non-temporal stores before whatever follows: sfence on x86, a full fence elsewhere."""

    def emit(context, builder, signature, arguments):
        if platform.machine().lower() in ("x86_64", "amd64"):
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse.sfence"), [])
        else:
            builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), emit


@intrinsic
def multiply_add(typingctx, a, b, rounds):
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


def _line(context, builder, signature, arguments, k):
    """Pointer to element i (the last argument) of array argument k, as a pointer to a whole line."""
    array, index = signature.args[k], arguments[-1]
    data = context.make_array(array)(context, builder, arguments[k]).data
    lanes = LINE // (array.dtype.bitwidth // 8)
    line = ir.VectorType(context.get_data_type(array.dtype), lanes)
    return builder.bitcast(builder.gep(data, [index]), line.as_pointer())


def _load(builder, pointer, number):
    value = builder.load(pointer)
    value.align = number.bitwidth // 8
    return value


def _store_non_temporal(builder, value, pointer):
    store = builder.store(value, pointer, align=LINE)
    store.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(_INT32, 1)]))


def _splat(builder, value, lanes):
    vector = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    first = builder.insert_element(vector, value, ir.Constant(_INT32, 0))
    return builder.shuffle_vector(first, vector, ir.Constant(ir.VectorType(_INT32, lanes), [0] * lanes))


def _fused(builder, x, factor, addend):
    lanes, number = x.type.count, "f64" if x.type.element == ir.DoubleType() else "f32"
    kind = ir.FunctionType(x.type, [x.type] * 3)
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{lanes}{number}")
    return builder.call(function, [x, factor, addend])

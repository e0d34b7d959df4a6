"""Copy and triad over all cores, with ordinary stores and with non-temporal ones, compiled by Numba.

A non-temporal store writes a whole cache line without reading it first (no write-allocate). It must be
aligned to its own size, and is ordered by a fence when all is written. Numba has no such store: its
intrinsics here emit a few lines of LLVM IR for one line of the arrays. All that is compiled into `streams`
lies in this file: Numba's cache looks for edits here only.
"""

import platform
from functools import cache

from llvmlite import ir
from numba import njit, prange, types
from numba.core import cgutils
from numba.extending import intrinsic

LINE = 64  # bytes a non-temporal store writes, in as many instructions as the host's vectors need
_INT32 = ir.IntType(32)


@cache
def non_temporal_missing() -> str:
    """Empty where non-temporal stores can be made, else the reason why they cannot."""
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64", "aarch64", "arm64"):
        return ""
    return f"no non-temporal store is known for the architecture {machine}"


@intrinsic
def _stream_copy(typingctx, a, b, i):
    """a[i:i+n] = b[i:i+n] for one line of n elements, stored past the caches; a[i] is at a multiple of 64."""

    def emit(context, builder, signature, arguments):
        target, source = (_line(context, builder, signature, arguments, k) for k in (0, 1))
        _store_non_temporal(builder, _load(builder, source, a.dtype), target)
        return context.get_dummy_value()

    return types.void(a, b, i), emit


@intrinsic
def _stream_triad(typingctx, a, b, c, s, i):
    """a[i:i+n] = b[i:i+n] + s*c[i:i+n] for one line of n elements, stored past the caches."""

    def emit(context, builder, signature, arguments):
        target, left, right = (_line(context, builder, signature, arguments, k) for k in (0, 1, 2))
        scale = _splat(builder, arguments[3], LINE // (a.dtype.bitwidth // 8))
        scaled = builder.fmul(scale, _load(builder, right, a.dtype))
        _store_non_temporal(builder, builder.fadd(_load(builder, left, a.dtype), scaled), target)
        return context.get_dummy_value()

    return types.void(a, b, c, s, i), emit


@intrinsic
def _fence(typingctx):
    """Order the non-temporal stores before whatever follows: sfence on x86, a full fence elsewhere."""

    def emit(context, builder, signature, arguments):
        if platform.machine().lower() in ("x86_64", "amd64"):
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse.sfence"), [])
        else:
            builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), emit


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


@njit(cache=True)
def _copy(a, b):
    for i in range(a.size):
        a[i] = b[i]


@njit(cache=True)
def _triad(a, b, c, s):
    for i in range(a.size):
        a[i] = b[i] + s * c[i]


@njit(cache=True)
def _copy_nt(a, b):
    lanes = LINE // a.itemsize
    whole = a.size - a.size % lanes
    for i in range(0, whole, lanes):
        _stream_copy(a, b, i)
    _copy(a[whole:], b[whole:])
    _fence()


@njit(cache=True)
def _triad_nt(a, b, c, s):
    lanes = LINE // a.itemsize
    whole = a.size - a.size % lanes
    for i in range(0, whole, lanes):
        _stream_triad(a, b, c, s, i)
    _triad(a[whole:], b[whole:], c[whole:], s)
    _fence()


@njit(parallel=True, cache=True)
def streams(operation, a, b, c, s, parts):
    """Every part but the last holds whole cache lines."""
    lanes = LINE // a.itemsize
    lines = a.size // lanes
    for part in prange(parts):
        start = part * lines // parts * lanes
        end = a.size if part + 1 == parts else (part + 1) * lines // parts * lanes
        if operation == 0:
            _copy(a[start:end], b[start:end])
        elif operation == 1:
            _copy_nt(a[start:end], b[start:end])
        elif operation == 2:
            _triad(a[start:end], b[start:end], c[start:end], s)
        else:
            _triad_nt(a[start:end], b[start:end], c[start:end], s)

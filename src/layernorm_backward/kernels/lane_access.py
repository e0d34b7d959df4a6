"""Loads and stores of a line in LLVM IR: whole, or of its first lanes only.

Whole lines are ordinary accesses. The others are masked, where the processor has masks for lanes of their
size. Without masks for 16-bit lanes, LLVM would access the lanes one by one, so they are accessed in pairs.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils

from layernorm_backward.kernels import processor
from layernorm_backward.kernels.lanes import first_lanes, splat

_INT16, _INT32 = ir.IntType(16), ir.IntType(32)
_FLOAT, _DOUBLE = ir.FloatType(), ir.DoubleType()
STORED = {types.float64: _DOUBLE, types.float32: _FLOAT, types.int16: _INT16, types.uint16: _INT16}
_NAMES = {_DOUBLE: "f64", _FLOAT: "f32", _INT16: "i16", _INT32: "i32"}


def aligned(access, number):
    """The load or store, aligned only to an element of a Numba type."""
    access.align = number.bitwidth // 8
    return access


def read(context, builder, place, dtype, width, count):
    """The first `count` of `width` elements of a dtype at a pointer, 0 in the other lanes; None: all."""
    line = ir.VectorType(STORED[dtype], width)
    pointer = builder.bitcast(place, line.as_pointer())
    if count is None:
        return aligned(builder.load(pointer), dtype)
    if _without_masks(context, dtype):
        return _load_words(builder, place, line, count)
    return _masked_load(builder, place, line, count)


def write(context, builder, line, place, dtype, count):
    """Store what `read` loads."""
    if count is None:
        return aligned(builder.store(line, builder.bitcast(place, line.type.as_pointer())), dtype)
    if _without_masks(context, dtype):
        return _store_words(builder, line, place, count)
    return _masked_store(builder, line, place, count)


def _without_masks(context, dtype):
    """Whether lanes have 16 bits and the processor has no masked access to them."""
    return dtype.bitwidth == 16 and "avx512bw" not in processor.features(context)


def _load_words(builder, place, line, count):
    """16-bit lanes, one or more: two at a time, and an odd one by itself."""
    pairs = ir.VectorType(_INT32, line.count // 2)
    whole, odd = _halved(builder, count)
    words = _masked_load(builder, place, pairs, whole)
    last = builder.load(builder.gep(place, [builder.sub(count, ir.Constant(count.type, 1))]))
    lane = splat(builder, builder.trunc(whole, _INT32), pairs.count)
    there = builder.icmp_signed("==", lane, ir.Constant(pairs, list(range(pairs.count))))
    wanted = builder.and_(there, splat(builder, odd, pairs.count))
    words = builder.select(wanted, splat(builder, builder.zext(last, _INT32), pairs.count), words)
    return builder.bitcast(words, line)


def _store_words(builder, line, place, count):
    """Store what `_load_words` loads."""
    pairs = ir.VectorType(_INT32, line.type.count // 2)
    whole, odd = _halved(builder, count)
    _masked_store(builder, builder.bitcast(line, pairs), place, whole)
    with builder.if_then(odd):
        last = builder.sub(count, ir.Constant(count.type, 1))
        builder.store(builder.extract_element(line, last), builder.gep(place, [last]))


def _halved(builder, count):
    """Pairs in a count, and whether it is odd."""
    one = ir.Constant(count.type, 1)
    return builder.lshr(count, one), builder.trunc(count, ir.IntType(1))


def _masked_load(builder, place, line, count):
    pointer, mask = builder.bitcast(place, line.as_pointer()), first_lanes(builder, count, range(line.count))
    kind = ir.FunctionType(line, [pointer.type, _INT32, mask.type, line])
    name = f"llvm.masked.load.v{line.count}{_NAMES[line.element]}.p0"
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    return builder.call(function, [pointer, _alignment(place), mask, ir.Constant(line, None)])


def _masked_store(builder, line, place, count):
    kind = line.type
    pointer, mask = builder.bitcast(place, kind.as_pointer()), first_lanes(builder, count, range(kind.count))
    signature = ir.FunctionType(ir.VoidType(), [kind, pointer.type, _INT32, mask.type])
    name = f"llvm.masked.store.v{kind.count}{_NAMES[kind.element]}.p0"
    function = cgutils.get_or_insert_function(builder.module, signature, name)
    builder.call(function, [line, pointer, _alignment(place), mask])


def _alignment(place):
    """Bytes, as an argument: of the element that a pointer points to."""
    bits = {_DOUBLE: 64, _FLOAT: 32}.get(place.type.pointee) or place.type.pointee.width
    return ir.Constant(_INT32, bits // 8)

"""Vectors of an explicit number of lanes in Numba: one cache line of each of 1, 2 or 4 rows of an array.

A line holds LINE bytes of storage, whatever the vectors of the processor hold, so that sums are added in the
same order everywhere; LLVM makes as many instructions of it as the processor needs. Nothing may be
reordered or contracted. float32 and float64 lanes are kept as they are stored. 16-bit storage is given as
integers, int16 for float16 and uint16 for bfloat16, and is widened to float32 in registers; storing rounds
to nearest even. Indices count elements of flat arrays; a line may begin anywhere, but `stream` wants a
multiple of LINE bytes. `count` lanes of a line are read or written, those behind them read as 0.
"""

import operator
import platform

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model
from numpy.typing import NDArray

from layernorm_backward.kernels import half

LINE = 64
_BIT, _BYTE, _INT16, _INT32 = (ir.IntType(bits) for bits in (1, 8, 16, 32))
_FLOAT, _DOUBLE = ir.FloatType(), ir.DoubleType()
_STORED = {types.float64: _DOUBLE, types.float32: _FLOAT, types.int16: _INT16, types.uint16: _INT16}
_NAMES = {_DOUBLE: "f64", _FLOAT: "f32", _INT16: "i16"}


def as_stored(array: NDArray) -> NDArray:
    """The array as the functions here take it: 16-bit floating point as integers."""
    return array.view({"float16": np.int16, "bfloat16": np.uint16}.get(array.dtype.name, array.dtype))


class Lanes(types.Type):
    """`width` lanes of float32 or float64 for each of `rows` rows."""

    def __init__(self, number, rows, width):
        self.number, self.rows, self.width = number, rows, width
        super().__init__(f"Lanes({number}, {rows} x {width})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, lanes):
        super().__init__(manager, lanes, ir.VectorType(_STORED[lanes.number], lanes.rows * lanes.width))


def _zeros(rows):
    @intrinsic
    def zeros(typingctx, x):
        number = x.dtype if isinstance(x.dtype, types.Float) else types.float32
        lanes = Lanes(number, rows, LINE * 8 // x.dtype.bitwidth)
        return lanes(x), lambda context, builder, signature, arguments: context.get_constant_null(lanes)

    return zeros


zeros1, zeros2, zeros4 = (_zeros(rows) for rows in (1, 2, 4))


@intrinsic
def width(typingctx, like):
    """Lanes of a row: elements in a line of storage."""
    return types.intp(like), lambda context, builder, signature, arguments: context.get_constant(
        types.intp, like.width
    )


@intrinsic
def load(typingctx, x, start, stride, count, like):
    """Lines at start, start + stride, ... of flat x, one for each row of `like`."""

    def emit(context, builder, signature, arguments):
        places = _places(context, builder, signature, arguments[0], 0, *arguments[1:3], like.rows)
        lines = [
            half.widen(context, builder, _load(builder, place, x.dtype, like.width, arguments[3]), x.dtype)
            for place in places
        ]
        return _join(builder, lines)

    return like(x, start, stride, count, like), emit


@intrinsic
def store(typingctx, values, x, start, stride, count):
    """Write lines at start, start + stride, ... of flat x, rounded to its dtype."""

    def emit(context, builder, signature, arguments):
        places = _places(context, builder, signature, arguments[1], 1, *arguments[2:4], values.rows)
        rounded = half.narrow(context, builder, arguments[0], x.dtype)
        for place, line in zip(places, _split(builder, rounded, values.rows), strict=True):
            _store(builder, line, place, x.dtype, arguments[4])
        return context.get_dummy_value()

    return types.void(values, x, start, stride, count), emit


@intrinsic
def stream(typingctx, values, x, start, stride):
    """`store` of whole lines at multiples of LINE bytes, past the caches; `fence` when all are written."""

    def emit(context, builder, signature, arguments):
        places = _places(context, builder, signature, arguments[1], 1, *arguments[2:4], values.rows)
        rounded = half.narrow(context, builder, arguments[0], x.dtype)
        for place, line in zip(places, _split(builder, rounded, values.rows), strict=True):
            pointer = builder.bitcast(place, line.type.as_pointer())
            _past_the_caches(builder, builder.store(line, pointer, align=LINE))
        return context.get_dummy_value()

    return types.void(values, x, start, stride), emit


@intrinsic
def stream_as_stored(typingctx, source, target, start):
    """Copy a line, target[start:] = source[start:], past the caches; to a multiple of LINE bytes."""

    def emit(context, builder, signature, arguments):
        kind = ir.VectorType(_STORED[target.dtype], LINE * 8 // target.dtype.bitwidth)
        places = [
            builder.bitcast(
                _places(context, builder, signature, arguments[k], k, arguments[2], None, 1)[0],
                kind.as_pointer(),
            )
            for k in (0, 1)
        ]
        values = _aligned(builder.load(places[0]), source.dtype)
        _past_the_caches(builder, builder.store(values, places[1], align=LINE))
        return context.get_dummy_value()

    return types.void(source, target, start), emit


def _prefetch(for_writing):
    arguments_of = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), _INT32, _INT32, _INT32])

    @intrinsic
    def prefetch(typingctx, x, start, stride, like):
        """Ask for the lines of `load` or `store`; they may lie outside of x."""

        def emit(context, builder, signature, arguments):
            ask = cgutils.get_or_insert_function(builder.module, arguments_of, "llvm.prefetch.p0")
            for place in _places(context, builder, signature, arguments[0], 0, *arguments[1:3], like.rows):
                line = builder.bitcast(place, _BYTE.as_pointer())
                builder.call(ask, [line, *(ir.Constant(_INT32, flag) for flag in (for_writing, 3, 1))])
            return context.get_dummy_value()

        return types.void(x, start, stride, like), emit

    return prefetch


prefetch, prefetch_to_write = _prefetch(0), _prefetch(1)


@intrinsic
def fence(typingctx):
    """Order the streamed lines before whatever follows: sfence on x86, a full fence elsewhere."""

    def emit(context, builder, signature, arguments):
        if platform.machine().lower() in ("x86_64", "amd64"):
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse.sfence"), [])
        else:
            builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), emit


@intrinsic
def spread(typingctx, value, like):
    """A scalar in every lane."""

    def emit(context, builder, signature, arguments):
        number = context.cast(builder, arguments[0], value, like.number)
        return _splat(builder, number, like.rows * like.width)

    return like(value, like), emit


@intrinsic
def each(typingctx, values, first, like):
    """values[first], values[first + 1], ... in the lanes of one row each."""

    def emit(context, builder, signature, arguments):
        one = ir.Constant(arguments[1].type, 1)
        places = _places(context, builder, signature, arguments[0], 0, arguments[1], one, like.rows)
        return _join(builder, [_splat(builder, builder.load(place), like.width) for place in places])

    return like(values, first, like), emit


@intrinsic
def put_each(typingctx, lanes, values, first):
    """Write the first lane of each row to values[first], values[first + 1], ..."""

    def emit(context, builder, signature, arguments):
        one = ir.Constant(arguments[2].type, 1)
        places = _places(context, builder, signature, arguments[1], 1, arguments[2], one, lanes.rows)
        for row, place in enumerate(places):
            lane = builder.extract_element(arguments[0], ir.Constant(_INT32, row * lanes.width))
            builder.store(lane, place)
        return context.get_dummy_value()

    return types.void(lanes, values, first), emit


@intrinsic
def total(typingctx, lanes):
    """The sum over the lanes of each row, added in pairs, in each of its lanes."""

    def emit(context, builder, signature, arguments):
        sums = []
        for line in _split(builder, arguments[0], lanes.rows):
            while (half := line.type.count // 2) > 0:
                low, high = range(half), range(half, 2 * half)
                line = builder.fadd(_shuffle(builder, line, low), _shuffle(builder, line, high))
            sums.append(_shuffle(builder, line, [0] * lanes.width))
        return _join(builder, sums)

    return lanes(lanes), emit


@intrinsic
def keep(typingctx, lanes, count):
    """The first `count` lanes of each row, 0 in those behind them."""

    def emit(context, builder, signature, arguments):
        kept = _first(builder, arguments[1], lanes.width)
        zero = context.get_constant_null(lanes)
        return builder.select(_join(builder, [kept] * lanes.rows), arguments[0], zero)

    return lanes(lanes, count), emit


@intrinsic
def choose(typingctx, test, threshold, yes, no):
    """`yes` where test > threshold, else `no`, lane by lane."""

    def emit(context, builder, signature, arguments):
        return builder.select(builder.fcmp_ordered(">", *arguments[:2]), *arguments[2:])

    return yes(test, threshold, yes, no), emit


@intrinsic
def exceeds(typingctx, a, b):
    """Whether a > b in any lane."""

    def emit(context, builder, signature, arguments):
        bits = builder.bitcast(builder.fcmp_ordered(">", *arguments), ir.IntType(a.rows * a.width))
        return builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))

    return types.boolean(a, b), emit


@intrinsic
def root(typingctx, lanes):
    """The square root of each lane, correctly rounded."""

    def emit(context, builder, signature, arguments):
        vector = arguments[0].type
        name = f"llvm.sqrt.v{vector.count}{_NAMES[vector.element]}"
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector]), name)
        return builder.call(function, arguments)

    return lanes(lanes), emit


@intrinsic
def line(typingctx, values, start, like):
    """A line of a flat array of numbers as wide as a row of `like`: one row."""
    one = Lanes(like.number, 1, like.width)

    def emit(context, builder, signature, arguments):
        (place,) = _places(context, builder, signature, arguments[0], 0, arguments[1], None, 1)
        return _aligned(builder.load(builder.bitcast(place, _vector(one).as_pointer())), like.number)

    return one(values, start, like), emit


@intrinsic
def put_line(typingctx, lanes, values, start):
    """Write one row of lanes to values[start:]."""

    def emit(context, builder, signature, arguments):
        (place,) = _places(context, builder, signature, arguments[1], 1, arguments[2], None, 1)
        _aligned(
            builder.store(arguments[0], builder.bitcast(place, arguments[0].type.as_pointer())), lanes.number
        )
        return context.get_dummy_value()

    return types.void(lanes, values, start), emit


@intrinsic
def repeat(typingctx, one, like):
    """One row of lanes, for every row."""
    return like(one, like), lambda context, builder, signature, arguments: _join(
        builder, [arguments[0]] * like.rows
    )


@intrinsic
def add_rows(typingctx, one, lanes):
    """One row of lanes, to which the rows are added one after the other."""

    def emit(context, builder, signature, arguments):
        sums = arguments[0]
        for row in _split(builder, arguments[1], lanes.rows):
            sums = builder.fadd(sums, row)
        return sums

    return one(one, lanes), emit


def _arithmetic(operation, instruction):
    @intrinsic
    def compute(typingctx, a, b):
        return a(a, b), lambda context, builder, signature, arguments: getattr(builder, instruction)(
            *arguments
        )

    @overload(operation)
    def of_lanes(a, b):
        if isinstance(a, Lanes) and a == b:
            return lambda a, b: compute(a, b)
        return None


for _operation, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _arithmetic(_operation, _instruction)


def _places(context, builder, signature, array, position, start, stride, rows):
    """Pointers to elements start, start + stride, ... of the array argument at a position."""
    data = context.make_array(signature.args[position])(context, builder, array).data
    places = []
    for _ in range(rows):
        places.append(builder.gep(data, [start]))
        start = start if stride is None else builder.add(start, stride)
    return places


def _vector(lanes):
    return ir.VectorType(_STORED[lanes.number], lanes.rows * lanes.width)


def _aligned(access, number):
    access.align = number.bitwidth // 8
    return access


def _past_the_caches(builder, written):
    written.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(_INT32, 1)]))


def _first(builder, count, width):
    """A mask of the first `count` of `width` lanes."""
    lane = ir.Constant(ir.VectorType(count.type, width), list(range(width)))
    return builder.icmp_signed("<", lane, _splat(builder, count, width))


def _load(builder, place, dtype, width, count):
    vector = ir.VectorType(_STORED[dtype], width)
    pointer, mask = builder.bitcast(place, vector.as_pointer()), _first(builder, count, width)
    kind = ir.FunctionType(vector, [pointer.type, _INT32, mask.type, vector])
    name = f"llvm.masked.load.v{width}{_NAMES[vector.element]}.p0"
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    align = ir.Constant(_INT32, dtype.bitwidth // 8)
    return builder.call(function, [pointer, align, mask, ir.Constant(vector, None)])


def _store(builder, line, place, dtype, count):
    vector = line.type
    pointer, mask = builder.bitcast(place, vector.as_pointer()), _first(builder, count, vector.count)
    kind = ir.FunctionType(ir.VoidType(), [vector, pointer.type, _INT32, mask.type])
    name = f"llvm.masked.store.v{vector.count}{_NAMES[vector.element]}.p0"
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    builder.call(function, [line, pointer, ir.Constant(_INT32, dtype.bitwidth // 8), mask])


def _splat(builder, value, lanes):
    vector = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    return _shuffle(builder, builder.insert_element(vector, value, ir.Constant(_INT32, 0)), [0] * lanes)


def _shuffle(builder, vector, lanes):
    order = ir.Constant(ir.VectorType(_INT32, len(lanes)), list(lanes))
    return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), order)


def _split(builder, vector, rows):
    width = vector.type.count // rows
    return [_shuffle(builder, vector, range(row * width, (row + 1) * width)) for row in range(rows)]


def _join(builder, lines):
    while len(lines) > 1:
        both = ir.Constant(
            ir.VectorType(_INT32, 2 * lines[0].type.count), list(range(2 * lines[0].type.count))
        )
        lines = [
            builder.shuffle_vector(one, two, both) for one, two in zip(lines[::2], lines[1::2], strict=True)
        ]
    return lines[0]

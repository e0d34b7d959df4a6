"""Memory accesses of lanes: loads, ordinary and non-temporal stores, and prefetches of lines of flat arrays.

float32 and float64 are stored as they are. 16-bit storage is passed as integers, int16 for float16 and uint16
for bfloat16, and is widened to float32 in registers; storing rounds to nearest even. Indices count elements.
A line may begin at any element, but `stream` requires a multiple of LINE bytes. count: the first lanes of a
line, one or more, that are loaded or stored; the others load as 0. None, known at compile time, is all lanes.
"""

import platform

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from layernorm_backward.aligned import PAGE
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.kernels import half
from layernorm_backward.kernels.lane_access import STORED, aligned, read, write
from layernorm_backward.kernels.lanes import LINE, Lanes, join, split, vector

_BFLOAT16 = dtype_of("bfloat16")
_INTEGERS = {np.dtype(np.float16): np.int16, _BFLOAT16: np.uint16}
_BYTE, _INT32 = ir.IntType(8), ir.IntType(32)


def as_stored(array: NDArray) -> NDArray:
    """The array as the functions here take it: 16-bit floating point as integers."""
    return array.view(_INTEGERS[array.dtype]) if array.dtype in _INTEGERS else array


def parity_lanes(dtype: np.dtype) -> int:
    """Lanes in a line of x of a dtype whose whole lines are ordered `by_parity`, 0 for other dtypes."""
    return LINE // dtype.itemsize if dtype == _BFLOAT16 else 0


def in_lanes(vector: NDArray, lanes: int) -> NDArray:
    """A vector (D,) ordered by `lanes.by_parity`, padded to whole lines; unchanged where `lanes` is 0."""
    if not lanes:
        return vector
    padded = np.pad(vector, (0, -vector.size % lanes)) if vector.size % lanes else vector
    return padded.reshape(-1, lanes // 2, 2).swapaxes(1, 2).reshape(-1)


def in_columns(vector: NDArray, lanes: int) -> NDArray:
    """The inverse of `in_lanes`, still padded to whole lines."""
    return vector.reshape(-1, 2, lanes // 2).swapaxes(1, 2).reshape(-1) if lanes else vector


@intrinsic
def align_stack(typingctx):
    """Align the lanes that a function spills to the stack to multiples of LINE bytes.

    LLVM does so only if it knows before register allocation that an object on the stack needs it. Else it
    takes the stack as it is: in one process of fifteen a line of each row straddled two pages, at 3 to 6
    times the time.
    """

    def emit(context, builder, signature, arguments):
        place = cgutils.alloca_once(builder, ir.ArrayType(_BYTE, LINE))
        place.align = LINE
        pointer = builder.bitcast(place, _BYTE.as_pointer())
        builder.asm(ir.FunctionType(ir.VoidType(), [pointer.type]), "", "r", [pointer], side_effect=True)
        return context.get_dummy_value()

    return types.void(), emit


@intrinsic
def elements(typingctx, array):
    """A pointer to the elements of an array, which all functions here take in place of the array.

    Numba counts references to an array, sometimes in every call. Threads that share the array share the
    count, and each atomic change of it waits for all earlier stores.
    """

    def emit(context, builder, signature, arguments):
        return _data(context, builder, array, arguments[0])

    return types.CPointer(array.dtype)(array), emit


@intrinsic
def moved(typingctx, values, by):
    """A pointer of `elements`, advanced by `by` elements."""

    def emit(context, builder, signature, arguments):
        return builder.gep(arguments[0], [arguments[1]])

    return values(values, by), emit


@intrinsic
def load(typingctx, x, start, stride, count, like):
    """Lines at start, start + stride, ... of flat x, one for each row of `like`."""

    def emit(context, builder, signature, arguments):
        counted = None if count is types.none else arguments[3]
        places = _places(context, builder, signature, arguments[0], 0, *arguments[1:3], like.rows)
        lines = [
            half.widen(
                context,
                builder,
                read(context, builder, place, x.dtype, like.width, counted),
                x.dtype,
                like.parity,
            )
            for place in places
        ]
        return join(builder, lines)

    return like(x, start, stride, count, like), emit


@intrinsic
def store(typingctx, values, x, start, stride, count):
    """Store lines at start, start + stride, ... of flat x, rounded to its dtype."""

    def emit(context, builder, signature, arguments):
        counted = None if count is types.none else arguments[4]
        places = _places(context, builder, signature, arguments[1], 1, *arguments[2:4], values.rows)
        for place, line in zip(
            places, _rounded(context, builder, values, arguments[0], x.dtype), strict=True
        ):
            whole = counted is None
            parts = _parts(context, builder, line, place, x.dtype) if whole else [(line, place)]
            for part, pointer in parts:
                write(context, builder, part, pointer, x.dtype, counted)
        return context.get_dummy_value()

    return types.void(values, x, start, stride, count), emit


@intrinsic
def stream(typingctx, values, x, start, stride):
    """Non-temporal `store` of whole lines at multiples of LINE bytes; call `fence` after the last."""

    def emit(context, builder, signature, arguments):
        places = _places(context, builder, signature, arguments[1], 1, *arguments[2:4], values.rows)
        for place, line in zip(
            places, _rounded(context, builder, values, arguments[0], x.dtype), strict=True
        ):
            parts = _parts(context, builder, line, place, x.dtype)
            for part, pointer in parts:
                _non_temporal(builder, builder.store(part, pointer, align=LINE // len(parts)))
        return context.get_dummy_value()

    return types.void(values, x, start, stride), emit


@intrinsic
def stream_line(typingctx, source, start, target, to):
    """target[to:] = source[start:], an unconverted line; a non-temporal store to a multiple of LINE bytes."""

    def emit(context, builder, signature, arguments):
        values, place = _line_between(context, builder, signature, arguments, None)
        pointer = builder.bitcast(place, values.type.as_pointer())
        _non_temporal(builder, builder.store(values, pointer, align=LINE))
        return context.get_dummy_value()

    return types.void(source, start, target, to), emit


@intrinsic
def copy_line(typingctx, source, start, target, to, count):
    """`stream_line` by an ordinary store, to any element, of the first `count` elements."""

    def emit(context, builder, signature, arguments):
        counted = None if count is types.none else arguments[4]
        values, place = _line_between(context, builder, signature, arguments, counted)
        write(context, builder, values, place, target.dtype, counted)
        return context.get_dummy_value()

    return types.void(source, start, target, to, count), emit


def _line_between(context, builder, signature, arguments, count):
    """What is loaded of a line of `source`, and its pointer in `target`."""
    (place,) = _places(context, builder, signature, arguments[0], 0, arguments[1], None, 1)
    (target,) = _places(context, builder, signature, arguments[2], 2, arguments[3], None, 1)
    dtype = signature.args[0].dtype
    return read(context, builder, place, dtype, LINE * 8 // dtype.bitwidth, count), target


def _prefetch(nearness):
    arguments_of = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), _INT32, _INT32, _INT32])

    @intrinsic
    def prefetch(typingctx, x, start, like):
        """Prefetch the line at element `start`, which may lie outside x."""

        def emit(context, builder, signature, arguments):
            fetch = cgutils.get_or_insert_function(builder.module, arguments_of, "llvm.prefetch.p0")
            (place,) = _places(context, builder, signature, arguments[0], 0, arguments[1], None, 1)
            line = builder.bitcast(place, _BYTE.as_pointer())
            builder.call(fetch, [line, *(ir.Constant(_INT32, flag) for flag in (0, nearness, 1))])
            return context.get_dummy_value()

        return types.void(x, start, like), emit

    return prefetch


prefetch, prefetch_l2 = _prefetch(3), _prefetch(2)  # to the first-level cache; to the second only


@intrinsic
def fence(typingctx):
    """Order the non-temporal stores before all that follows: sfence on x86, a full fence elsewhere."""

    def emit(context, builder, signature, arguments):
        if platform.machine().lower() in ("x86_64", "amd64"):
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse.sfence"), [])
        else:
            builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), emit


@intrinsic
def numbers(typingctx, values, first, like):
    """values[first], values[first + 1], ...: numbers, one for each row of `like`."""
    rows = Lanes(like.number, like.rows, 1)
    return rows(values, first, like), _reading(rows)


@intrinsic
def line(typingctx, values, start, like):
    """A line of a flat array in the dtype of the lanes, as wide as a row of `like`: one row."""
    one = Lanes(like.number, 1, like.width, like.paired, like.parity)
    return one(values, start, like), _reading(one)


@intrinsic
def lines(typingctx, values, start, stride, like):
    """As `line`, one for each row, `stride` elements apart."""
    one = Lanes(like.number, 1, like.width, like.paired, like.parity)

    def emit(context, builder, signature, arguments):
        places = _places(context, builder, signature, arguments[0], 0, *arguments[1:3], like.rows)
        return join(builder, [_read_lanes(builder, place, one) for place in places])

    return like(values, start, stride, like), emit


@intrinsic
def put(typingctx, lanes, values, start):
    """Store lanes, or numbers, to values[start:], row after row, in their own dtype."""

    def emit(context, builder, signature, arguments):
        (place,) = _places(context, builder, signature, arguments[1], 1, arguments[2], None, 1)
        pointer = builder.bitcast(place, vector(lanes).as_pointer())
        aligned(builder.store(arguments[0], pointer), lanes.number)
        return context.get_dummy_value()

    return types.void(lanes, values, start), emit


@intrinsic(prefer_literal=True)
def stack_lines(typingctx, x, count):
    """A flat array of x's storage dtype on the caller's stack, for a constant number of lines."""

    def emit(context, builder, signature, arguments):
        size = count.literal_value * LINE * 8 // x.dtype.bitwidth
        lines = cgutils.alloca_once(builder, ir.ArrayType(STORED[x.dtype], size), name="lines")
        lines.align = PAGE
        return builder.bitcast(lines, context.get_value_type(signature.return_type))

    return types.CPointer(x.dtype)(x, count), emit


@intrinsic
def fetch_add(typingctx, counter):
    """Atomically add 1 to counter[0]; returns its value before."""

    def emit(context, builder, signature, arguments):
        data = _data(context, builder, signature.args[0], arguments[0])
        return builder.atomic_rmw("add", data, ir.Constant(data.type.pointee, 1), "monotonic")

    return counter.dtype(counter), emit


def _rounded(context, builder, lanes, values, dtype):
    """A line of storage for each row."""
    return [
        half.narrow(context, builder, row, dtype, lanes.parity) for row in split(builder, values, lanes.rows)
    ]


def _parts(context, builder, line, place, dtype):
    """The vectors that make up a line from `half.narrow`, and their pointers."""
    parts = split(builder, line, half.vectors(context, dtype))
    first = builder.bitcast(place, parts[0].type.as_pointer())
    return [(part, builder.gep(first, [ir.Constant(_INT32, number)])) for number, part in enumerate(parts)]


def _data(context, builder, kind, array):
    """The pointer to the first element of an array, or of a pointer of `elements`."""
    if isinstance(kind, types.CPointer):
        return array
    return context.make_array(kind)(context, builder, array).data


def _places(context, builder, signature, array, position, start, stride, rows):
    """Pointers to elements start, start + stride, ... of the argument at a position."""
    data = _data(context, builder, signature.args[position], array)
    places = []
    for _ in range(rows):
        places.append(builder.gep(data, [start]))
        start = start if stride is None else builder.add(start, stride)
    return places


def _reading(lanes):
    """The code generator for (values, start, ...): lanes from contiguous elements, in their own dtype."""

    def emit(context, builder, signature, arguments):
        (place,) = _places(context, builder, signature, arguments[0], 0, arguments[1], None, 1)
        return _read_lanes(builder, place, lanes)

    return emit


def _read_lanes(builder, place, lanes):
    return aligned(builder.load(builder.bitcast(place, vector(lanes).as_pointer())), lanes.number)


def _non_temporal(builder, written):
    written.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(_INT32, 1)]))

"""Vectors of an explicit number of lanes in Numba: one cache line of each of 1, 2 or 4 rows of an array.

A line holds LINE bytes of storage, whatever the processor's vector length, so that sums are added in the same
order everywhere; LLVM splits it into as many instructions as the processor needs. Nothing may be reordered or
contracted: products and sums are rounded one by one, except in `fma`, which rounds once (without such an
instruction, the C library is called for it). `lane_memory` reads and writes lines.

Scalars of a row, such as its mean, are held in *numbers*, which have a single lane for each row.
"""

import operator

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

LINE = 64
_INT32 = ir.IntType(32)
_NUMBERS = {types.float64: ir.DoubleType(), types.float32: ir.FloatType()}
_NAMES = {ir.DoubleType(): "f64", ir.FloatType(): "f32"}


class Lanes(types.Type):
    """`width` lanes of float32 or float64 for each of `rows` rows.

    order: which element of a line each lane holds: 0, 1, 2, ... or, by `parity`, the even ones before the odd
    ones. paired: which elements are added when a line is folded: neighbours, for bfloat16, else element k of
    the first half and of the second.
    """

    def __init__(self, number, rows, width, paired=False, parity=False):
        self.number, self.rows, self.width, self.paired, self.parity = number, rows, width, paired, parity
        options = ", in pairs" * paired + ", even and odd" * parity
        super().__init__(f"Lanes({number}, {rows} x {width}{options})")

    @property
    def order(self):
        return [*range(0, self.width, 2), *range(1, self.width, 2)] if self.parity else [*range(self.width)]


def vector(lanes: Lanes) -> ir.VectorType:
    """Row by row."""
    return ir.VectorType(_NUMBERS[lanes.number], lanes.rows * lanes.width)


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, lanes):
        super().__init__(manager, lanes, vector(lanes))


def _line(x, rows):
    number = x.dtype if isinstance(x.dtype, types.Float) else types.float32
    return Lanes(number, rows, LINE * 8 // x.dtype.bitwidth, paired=x.dtype == types.uint16)


def _null(context, builder, signature, arguments):
    return context.get_constant_null(signature.return_type)


@intrinsic(prefer_literal=True)
def zeros(typingctx, x, rows):
    """A line of zeros, in the lanes of x's dtype, for each of `rows` rows, a literal."""
    return _line(x, rows.literal_value)(x, rows), _null


@intrinsic
def by_parity(typingctx, like):
    """`like` for whole lines: for bfloat16, as `lane_memory` stores it, even elements before odd ones.

    The halves of a word of 32 bits are then widened, and added when a line is folded, without a shuffle.
    """
    lanes = Lanes(like.number, like.rows, like.width, like.paired, parity=like.paired)
    return lanes(like), lambda context, builder, signature, arguments: arguments[0]


@intrinsic
def width(typingctx, like):
    """Lanes of a row: elements in a line of storage."""
    return types.intp(like), lambda context, builder, signature, arguments: context.get_constant(
        types.intp, like.width
    )


@intrinsic
def height(typingctx, like):
    """Rows."""
    return types.intp(like), lambda context, builder, signature, arguments: context.get_constant(
        types.intp, like.rows
    )


@intrinsic
def full(typingctx, value, like):
    """A scalar in every lane."""

    def emit(context, builder, signature, arguments):
        number = context.cast(builder, arguments[0], value, like.number)
        return splat(builder, number, like.rows * like.width)

    return like(value, like), emit


@intrinsic
def fold(typingctx, lanes):
    """Each row's lanes in LINE bytes: for 16-bit storage, one half of a line's elements added to the other.

    The halves are the first and the second; for bfloat16, the even elements and the odd ones.
    """
    narrow = Lanes(lanes.number, lanes.rows, _folded_width(lanes))

    def emit(context, builder, signature, arguments):
        lines = split(builder, arguments[0], lanes.rows)
        return join(builder, [_folded(builder, line, lanes) for line in lines])

    return narrow(lanes), emit


@intrinsic
def add_folded_products(typingctx, sums, a, b):
    """sums + a * b, rounded once; if a * b is folded, its second half is rounded first."""

    def emit(context, builder, signature, arguments):
        if a.width == sums.width:
            return _call(builder, "fma", *arguments[1:], arguments[0])
        lines = []
        for left, right in zip(*(split(builder, lanes, a.rows) for lanes in arguments[1:]), strict=True):
            (first, second), (factor, other) = (_halves(builder, line, a) for line in (left, right))
            lines.append(_call(builder, "fma", first, factor, builder.fmul(second, other)))
        return builder.fadd(arguments[0], join(builder, lines))

    return sums(sums, a, b), emit


@intrinsic
def totals(typingctx, lanes):
    """Numbers: the sum over each row, folded, then pairwise: the second half added to the first, etc."""
    numbers = Lanes(lanes.number, lanes.rows, 1)

    def emit(context, builder, signature, arguments):
        lines = split(builder, arguments[0], lanes.rows)
        return join(builder, [_total(builder, _folded(builder, line, lanes)) for line in lines])

    return numbers(lanes), emit


def _folded_width(lanes):
    return LINE * 8 // lanes.number.bitwidth


def _folded(builder, line, lanes):
    return line if lanes.width == _folded_width(lanes) else builder.fadd(*_halves(builder, line, lanes))


def _total(builder, line):
    count = line.type.count
    while count > 1:
        count //= 2
        first, second = (_shuffle(builder, line, range(at, at + count)) for at in (0, count))
        line = builder.fadd(first, second)
    return line


def _halves(builder, line, lanes):
    """The two halves of a line that are added when it is folded, each in the order of the elements."""
    half, count = lanes.width // 2, lanes.width
    halves = (range(0, count, 2), range(1, count, 2)) if lanes.paired else (range(half), range(half, count))
    return [_shuffle(builder, line, [lanes.order.index(element) for element in part]) for part in halves]


@intrinsic
def broadcast(typingctx, numbers, like):
    """The number of each row in all of its lanes."""

    def emit(context, builder, signature, arguments):
        rows = [row for row in range(like.rows) for _ in range(like.width)]
        return _shuffle(builder, arguments[0], rows)

    return like(numbers, like), emit


@intrinsic
def mask_tail(typingctx, lanes, count):
    """The first `count` elements of each row, 0 in the other lanes; None: all."""

    def emit(context, builder, signature, arguments):
        if count is types.none:
            return arguments[0]
        kept = first_lanes(builder, arguments[1], lanes.order)
        zero = context.get_constant_null(lanes)
        return builder.select(join(builder, [kept] * lanes.rows), arguments[0], zero)

    return lanes(lanes, count), emit


@intrinsic
def select_greater(typingctx, test, threshold, yes, no):
    """`yes` where test > threshold, else `no`, lane by lane."""

    def emit(context, builder, signature, arguments):
        return builder.select(builder.fcmp_ordered(">", *arguments[:2]), *arguments[2:])

    return yes(test, threshold, yes, no), emit


@intrinsic
def from_row(typingctx, which, yes, no):
    """Row number `which` of `yes`, and all others of `no`."""

    def emit(context, builder, signature, arguments):
        number = arguments[0].type
        rows = ir.Constant(
            ir.VectorType(number, no.rows * no.width),
            [row for row in range(no.rows) for _ in range(no.width)],
        )
        chosen = builder.icmp_signed("==", rows, splat(builder, arguments[0], no.rows * no.width))
        return builder.select(chosen, *arguments[1:])

    return no(which, yes, no), emit


@intrinsic
def any_greater(typingctx, a, b):
    """Whether a > b in any lane."""

    def emit(context, builder, signature, arguments):
        bits = builder.bitcast(builder.fcmp_ordered(">", *arguments), ir.IntType(a.rows * a.width))
        return builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))

    return types.boolean(a, b), emit


@intrinsic
def likely(typingctx, test):
    """The test itself, with a hint that it mostly holds: the other branch's code is moved out of line."""

    def emit(context, builder, signature, arguments):
        bit = context.cast(builder, arguments[0], test, types.boolean)
        kind = ir.FunctionType(bit.type, [bit.type, bit.type])
        expect = cgutils.get_or_insert_function(builder.module, kind, "llvm.expect.i1")
        return builder.call(expect, [bit, ir.Constant(bit.type, 1)])

    return types.boolean(types.boolean), emit


@intrinsic
def sqrt(typingctx, lanes):
    """The square root of each lane, correctly rounded."""
    return lanes(lanes), lambda context, builder, signature, arguments: _call(builder, "sqrt", *arguments)


@intrinsic
def rows_of(typingctx, lanes):
    """The rows one by one, as a tuple of four, None for those missing."""
    one = Lanes(lanes.number, 1, lanes.width, lanes.paired, lanes.parity)
    missing = 4 - lanes.rows
    rows = types.Tuple([one] * lanes.rows + [types.none] * missing)

    def emit(context, builder, signature, arguments):
        lines = split(builder, arguments[0], lanes.rows) + [context.get_dummy_value()] * missing
        return context.make_tuple(builder, rows, lines)

    return rows(lanes), emit


@intrinsic
def repeat(typingctx, one, like):
    """One row of lanes, for every row."""
    return like(one, like), lambda context, builder, signature, arguments: join(
        builder, [arguments[0]] * like.rows
    )


@intrinsic
def add_rows(typingctx, one, lanes):
    """One row of lanes, to which the rows are added one after the other."""

    def emit(context, builder, signature, arguments):
        sums = arguments[0]
        for row in split(builder, arguments[1], lanes.rows):
            sums = builder.fadd(sums, row)
        return sums

    return one(one, lanes), emit


@intrinsic
def add_products(typingctx, one, a, b):
    """One row of lanes, to which a * b of the rows is added one after the other, each sum rounded once."""

    def emit(context, builder, signature, arguments):
        sums = arguments[0]
        rows = (split(builder, lanes, a.rows) for lanes in arguments[1:])
        for left, right in zip(*rows, strict=True):
            sums = _call(builder, "fma", left, right, sums)
        return sums

    return one(one, a, b), emit


@intrinsic
def fma(typingctx, a, b, c):
    """a * b + c, rounded once; of lanes or of floating-point numbers."""
    return a(a, b, c), lambda context, builder, signature, arguments: _call(builder, "fma", *arguments)


@intrinsic
def multiply_add(typingctx, a, b, c):
    """a * b + c, rounded once where the processor has an instruction for it, else twice."""

    def emit(context, builder, signature, arguments):
        product = builder.fmul(*arguments[:2], flags=("contract",))
        return builder.fadd(product, arguments[2], flags=("contract",))

    return a(a, b, c), emit


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


@intrinsic
def _negative(typingctx, lanes):
    return lanes(lanes), lambda context, builder, signature, arguments: builder.fneg(*arguments)


@overload(operator.neg)
def _negative_lanes(lanes):
    return (lambda lanes: _negative(lanes)) if isinstance(lanes, Lanes) else None


def _call(builder, name, *arguments):
    """An LLVM intrinsic on numbers or vectors of one type."""
    kind = arguments[0].type
    suffix = f"v{kind.count}{_NAMES[kind.element]}" if isinstance(kind, ir.VectorType) else _NAMES[kind]
    function = ir.FunctionType(kind, [kind] * len(arguments))
    return builder.call(
        cgutils.get_or_insert_function(builder.module, function, f"llvm.{name}.{suffix}"), arguments
    )


def first_lanes(builder, count, order):
    """A mask of the lanes that hold the first `count` elements."""
    element = ir.Constant(ir.VectorType(count.type, len(order)), list(order))
    return builder.icmp_signed("<", element, splat(builder, count, len(order)))


def splat(builder, value, lanes):
    vector = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    return _shuffle(builder, builder.insert_element(vector, value, ir.Constant(_INT32, 0)), [0] * lanes)


def _shuffle(builder, vector, lanes):
    order = ir.Constant(ir.VectorType(_INT32, len(lanes)), list(lanes))
    return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), order)


def split(builder, vector, rows):
    width = vector.type.count // rows
    return [_shuffle(builder, vector, range(row * width, (row + 1) * width)) for row in range(rows)]


def join(builder, lines):
    while len(lines) > 1:
        both = ir.Constant(
            ir.VectorType(_INT32, 2 * lines[0].type.count), list(range(2 * lines[0].type.count))
        )
        lines = [
            builder.shuffle_vector(one, two, both) for one, two in zip(lines[::2], lines[1::2], strict=True)
        ]
    return lines[0]

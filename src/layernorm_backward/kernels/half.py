"""float16 and bfloat16 in vector registers: widened to float32, and rounded back to nearest even.

float16 is stored as int16 and bfloat16 as uint16. float16 is converted by the processor's instructions where
it has them, F16C, AVX-512 or those of AArch64, else by integer arithmetic with the same bits: LLVM would call
a function of the compiler's runtime library, and the process ends on a machine that lacks it. In both
directions a float16 NaN keeps its sign and the upper bits of its payload and becomes quiet. A bfloat16 NaN is
widened bit by bit, and rounded to the quiet NaN of its sign, as by `ml_dtypes`.

The instruction that rounds to bfloat16 (AVX512-BF16) flushes subnormal numbers to 0 and keeps the payload of
a NaN: vectors with either are rounded in integers.
"""

from functools import partial, reduce

from llvmlite import ir
from numba import types
from numba.core import cgutils

from layernorm_backward.kernels import processor

_INT16, _INT32, _FLOAT, _HALF = ir.IntType(16), ir.IntType(32), ir.FloatType(), ir.HalfType()
_BIAS = 112 << 23  # the exponent of float32 less that of float16, in place
_TINY = 0x38800000  # float32 bits of the least normal float16, 2**-14
_TO_NEAREST = ir.Constant(_INT32, 0)  # of the conversion instructions of x86
_AS_SET = ir.Constant(_INT32, 4)  # the current rounding mode; widening does not round
_POINT = 0x3F000000  # float32 bits of 0.5, whose last place is that of a subnormal float16


_SPECIAL = ir.Constant(_INT32, 0xA1)  # quiet NaN, subnormal, signalling NaN: classes of an x86 instruction


class _Bfloat(ir.Type):
    """LLVM's bfloat, for which llvmlite has no name."""

    def _to_string(self):
        return "bfloat"

    def __eq__(self, other):
        return isinstance(other, _Bfloat)

    def __hash__(self):
        return hash(_Bfloat)


def instructions(context) -> tuple[str, ...]:
    """The instruction sets with 16-bit conversions that the target processor has, the best first."""
    if context.codegen().magic_tuple()[0].startswith(("aarch64", "arm64")):
        return ("aarch64",)
    known = processor.features(context)
    return tuple(name for name in ("avx512bf16", "avx512f", "f16c") if name in known)


def widen(context, builder, stored, dtype, parity=False):
    """A line of a dtype as float32, bfloat16 ordered by `parity` if set; float32 and float64 unchanged."""
    if dtype == types.uint16 and parity:
        return _halves_of_words(builder, stored)
    if dtype == types.uint16:
        bits = builder.zext(stored, _lanes(_INT32, stored))
        return builder.bitcast(builder.shl(bits, _all(bits, 16)), _lanes(_FLOAT, stored))
    if dtype != types.int16:
        return stored
    known = instructions(context)
    if "avx512f" in known:
        return _in_parts(builder, stored, 16, _from_float16_avx512)
    if known:
        return builder.fpext(builder.bitcast(stored, _lanes(_HALF, stored)), _lanes(_FLOAT, stored))
    return _from_float16(builder, stored)


def narrow(context, builder, values, dtype, parity=False):
    """The inverse of `widen`: values rounded to a dtype."""
    if dtype not in _NARROW:
        return values
    known, lanes = _NARROW[dtype], values.type.count
    name = next((name for name in instructions(context) if name in known), "")
    if parity and not name:
        return _to_words(builder, values)
    rounded = known[name](builder, values)
    in_order = [lane // 2 + lane % 2 * (lanes // 2) for lane in range(lanes)]
    return _pick(builder, rounded, rounded, in_order) if parity else rounded


def vectors(context, dtype) -> int:
    """How many vectors `narrow` makes of a line; they are stored separately, to save a shuffle."""
    return 2 if dtype == types.int16 and "avx512f" in instructions(context) else 1


def _halves_of_words(builder, stored):
    """The even lanes of bfloat16, then the odd ones: the lower and the upper halves of words of 32 bits."""
    words = builder.bitcast(stored, ir.VectorType(_INT32, stored.type.count // 2))
    even, odd = builder.shl(words, _all(words, 16)), builder.and_(words, _all(words, -1 << 16))
    return builder.bitcast(_pick(builder, even, odd, range(stored.type.count)), _lanes(_FLOAT, stored))


def _from_float16(builder, stored):
    """Normal numbers change the exponent's bias; a subnormal one is its significand times 2**-24, exactly."""
    bits = builder.zext(stored, _lanes(_INT32, stored))
    size, sign = builder.and_(bits, _all(bits, 0x7FFF)), builder.and_(bits, _all(bits, 0x8000))
    moved = builder.shl(size, _all(bits, 13))
    digits = builder.sitofp(size, _lanes(_FLOAT, stored))
    subnormal = builder.bitcast(builder.fmul(digits, _all(digits, 2.0**-24)), bits.type)
    wide = _where(builder, "<", size, 0x400, subnormal, builder.add(moved, _all(bits, _BIAS)))
    wide = _where(builder, ">=", size, 0x7C00, builder.or_(moved, _all(bits, 0x7F800000)), wide)
    wide = _where(builder, ">", size, 0x7C00, builder.or_(wide, _all(bits, 0x400000)), wide)
    return builder.bitcast(builder.or_(wide, builder.shl(sign, _all(bits, 16))), digits.type)


def _to_float16(builder, values):
    """Round by adding half a unit in the last place; to a subnormal result, by adding 0.5."""
    bits = builder.bitcast(values, _lanes(_INT32, values))
    size = builder.and_(bits, _all(bits, 0x7FFFFFFF))
    moved = builder.lshr(size, _all(bits, 13))
    up = builder.add(builder.add(size, builder.and_(moved, _all(bits, 1))), _all(bits, 0xFFF - _BIAS))
    half = builder.lshr(up, _all(bits, 13))
    half = _where(builder, ">", half, 0x7C00, _all(bits, 0x7C00), half)
    shifted = builder.fadd(builder.bitcast(size, values.type), _all(values, 0.5))
    subnormal = builder.sub(builder.bitcast(shifted, bits.type), _all(bits, _POINT))
    half = _where(builder, "<", size, _TINY, subnormal, half)
    quiet = builder.or_(builder.and_(moved, _all(bits, 0x3FF)), _all(bits, 0x7E00))
    half = _where(builder, ">", size, 0x7F800000, quiet, half)
    sign = builder.and_(builder.lshr(bits, _all(bits, 16)), _all(bits, 0x8000))
    return builder.trunc(builder.or_(half, sign), _lanes(_INT16, values))


def _to_float16_aarch64(builder, values):
    return builder.bitcast(builder.fptrunc(values, _lanes(_HALF, values)), _lanes(_INT16, values))


def _in_parts(builder, values, most, convert):
    """Convert `most` lanes at a time."""
    count = values.type.count
    if count <= most:
        return convert(builder, values)
    ends = (range(count // 2), range(count // 2, count))
    parts = (_in_parts(builder, _pick(builder, values, values, end), most, convert) for end in ends)
    return _pick(builder, *parts, range(count))


def _from_float16_avx512(builder, stored):
    """By vcvtph2ps: LLVM prefers vcvtph2psx where it exists, which takes 1.5 times as long from memory."""
    result, mask = _lanes(_FLOAT, stored), ir.IntType(16)
    kind = ir.FunctionType(result, [stored.type, result, mask, _INT32])
    convert = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512.mask.vcvtph2ps.512")
    all_lanes, nothing = ir.Constant(mask, -1), ir.Constant(result, None)
    return builder.call(convert, [stored, nothing, all_lanes, _AS_SET])


def _to_float16_avx512(builder, values):
    """As integers: LLVM stores a vector of halves by ordinary stores, even if marked non-temporal."""
    result, mask = _lanes(_INT16, values), ir.IntType(16)
    kind = ir.FunctionType(result, [values.type, _INT32, result, mask])
    convert = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512.mask.vcvtps2ph.512")
    all_lanes, nothing = ir.Constant(mask, -1), ir.Constant(result, None)
    return builder.call(convert, [values, _TO_NEAREST, nothing, all_lanes])


def _to_float16_f16c(builder, values):
    kind = ir.FunctionType(_lanes(_INT16, values), [values.type, _INT32])
    convert = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.vcvtps2ph.256")
    return builder.call(convert, [values, _TO_NEAREST])


def _to_bfloat16(builder, values):
    """The rounded numbers are the upper halves of little-endian words."""
    rounded = _upper_halves(builder, values)
    halves = builder.bitcast(rounded, ir.VectorType(_INT16, 2 * values.type.count))
    return _pick(builder, halves, halves, range(1, 2 * values.type.count, 2))


def _to_words(builder, values):
    """bfloat16 by parity: words of 32 bits whose lower halves are the even lanes, the upper the odd ones.

    NaNs are tested for first, in all lanes at once.
    """
    lanes = values.type.count
    parts = [_pick(builder, values, values, range(at, at + 8)) for at in range(0, lanes, 8)]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    unordered = [builder.fcmp_unordered("uno", one, two) for one, two in pairs]
    special = builder.bitcast(reduce(builder.or_, unordered), ir.IntType(8))
    some = builder.icmp_unsigned("!=", special, ir.Constant(special.type, 0))
    with builder.if_else(some, likely=False) as (rare, usual):
        with rare:
            quieted, from_rare = _upper_halves(builder, values), builder.block
        with usual:
            rounded, from_usual = _rounded_up(builder, values), builder.block
    bits = builder.phi(rounded.type)
    bits.add_incoming(quieted, from_rare)
    bits.add_incoming(rounded, from_usual)
    even, odd = (_pick(builder, bits, bits, range(at, at + lanes // 2)) for at in (0, lanes // 2))
    words = builder.or_(builder.lshr(even, _all(even, 16)), builder.and_(odd, _all(odd, -1 << 16)))
    return builder.bitcast(words, _lanes(_INT16, values))


def _rounded_up(builder, values):
    """Bits with upper halves rounded to nearest even, by adding half a unit in the last place; no NaN."""
    bits = builder.bitcast(values, _lanes(_INT32, values))
    odd = builder.and_(builder.lshr(bits, _all(bits, 16)), _all(bits, 1))
    return builder.add(builder.add(bits, odd), _all(bits, 0x7FFF))


def _upper_halves(builder, values):
    """`_rounded_up`, with a NaN replaced by the quiet one of its sign."""
    bits = builder.bitcast(values, _lanes(_INT32, values))
    quiet = builder.or_(builder.and_(bits, _all(bits, 0x80000000)), _all(bits, 0x7FC00000))
    return builder.select(builder.fcmp_unordered("uno", values, values), quiet, _rounded_up(builder, values))


def _to_bfloat16_avx512(builder, values):
    """By the instruction, from two vectors of 16 lanes; in integers where a lane is special."""
    halves = [_pick(builder, values, values, lanes) for lanes in (range(16), range(16, 32))]
    kind = ir.FunctionType(ir.VectorType(ir.IntType(1), 16), [halves[0].type, _INT32])
    classify = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512.fpclass.ps.512")
    special = builder.or_(*(builder.call(classify, [half, _SPECIAL]) for half in halves))
    result = _lanes(_INT16, values)
    kind = ir.FunctionType(_lanes(_Bfloat(), values), [halves[0].type] * 2)
    convert = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512bf16.cvtne2ps2bf16.512")
    any_special = builder.icmp_unsigned("!=", builder.bitcast(special, _INT16), ir.Constant(_INT16, 0))
    with builder.if_else(any_special, likely=False) as (rare, usual):
        with rare:
            in_integers, from_rare = _to_bfloat16(builder, values), builder.block
        with usual:
            rounded = builder.bitcast(builder.call(convert, halves[::-1]), result)
            from_usual = builder.block
    chosen = builder.phi(result)
    chosen.add_incoming(in_integers, from_rare)
    chosen.add_incoming(rounded, from_usual)
    return chosen


_NARROW = {
    types.int16: {
        "": _to_float16,
        "aarch64": _to_float16_aarch64,
        "avx512f": partial(_in_parts, most=16, convert=_to_float16_avx512),
        "f16c": partial(_in_parts, most=8, convert=_to_float16_f16c),
    },
    types.uint16: {
        "": _to_bfloat16,
        "avx512bf16": partial(_in_parts, most=32, convert=_to_bfloat16_avx512),
    },
}


def _pick(builder, one, two, lanes):
    """The given lanes of two vectors, numbered through both."""
    return builder.shuffle_vector(one, two, ir.Constant(ir.VectorType(_INT32, len(lanes)), list(lanes)))


def _lanes(number, like):
    return ir.VectorType(number, like.type.count)


def _all(like, value):
    return ir.Constant(like.type, [value] * like.type.count)


def _where(builder, test, size, limit, yes, no):
    """Select lane by lane; sizes are below 2**31, so that signed and unsigned order agree."""
    return builder.select(builder.icmp_signed(test, size, _all(size, limit)), yes, no)

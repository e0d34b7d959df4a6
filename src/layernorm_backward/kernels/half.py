"""float16 and bfloat16 in vector registers: widened to float32, and rounded back to nearest even.

Stored numbers are int16 for float16 and uint16 for bfloat16. float16 takes the instructions of the processor
where it has them, F16C or those of AArch64, else integer arithmetic with the same bits: LLVM would call a
function of the C compiler's library that not every machine has, and end the process where it is missing. A
NaN of float16 keeps its sign and the upper bits of its payload and becomes a quiet one, either way; one of
bfloat16 is widened bit by bit, and rounded to the quiet one of its sign, as by `ml_dtypes`.
"""

from llvmlite import ir
from numba import types

_INT16, _INT32, _FLOAT, _HALF = ir.IntType(16), ir.IntType(32), ir.FloatType(), ir.HalfType()
_BIAS = 112 << 23  # the exponent of float32 less that of float16, in place
_TINY = 0x38800000  # float32 bits of the least normal float16, 2**-14
_POINT = 0x3F000000  # of 0.5, whose last place is that of a subnormal float16


def instructions(context) -> bool:
    """Whether the processor that is compiled for converts float16 itself."""
    triple, _, features = context.codegen().magic_tuple()
    return triple.startswith(("aarch64", "arm64")) or "+f16c" in features.split(",")


def widen(context, builder, stored, dtype):
    """Lanes of a dtype as float32; those of float32 and float64 as they are."""
    if dtype == types.uint16:
        bits = builder.zext(stored, _lanes(_INT32, stored))
        return builder.bitcast(builder.shl(bits, _all(bits, 16)), _lanes(_FLOAT, stored))
    if dtype != types.int16:
        return stored
    if instructions(context):
        return builder.fpext(builder.bitcast(stored, _lanes(_HALF, stored)), _lanes(_FLOAT, stored))
    return _from_float16(builder, stored)


def narrow(context, builder, values, dtype):
    """float32 lanes rounded to a dtype; float32 and float64 as they are."""
    if dtype == types.uint16:
        return _to_bfloat16(builder, values)
    if dtype != types.int16:
        return values
    if instructions(context):
        return builder.bitcast(builder.fptrunc(values, _lanes(_HALF, values)), _lanes(_INT16, values))
    return _to_float16(builder, values)


def _from_float16(builder, stored):
    """Normal numbers change their bias; a subnormal one is its digits times 2**-24, exactly."""
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
    """By adding half of the last place; where the result is subnormal, the addition of 0.5 rounds."""
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


def _to_bfloat16(builder, values):
    """By adding half of the last place."""
    bits = builder.bitcast(values, _lanes(_INT32, values))
    high = builder.lshr(bits, _all(bits, 16))
    up = builder.add(builder.add(bits, builder.and_(high, _all(bits, 1))), _all(bits, 0x7FFF))
    quiet = builder.or_(builder.and_(high, _all(bits, 0x8000)), _all(bits, 0x7FC0))
    nan = builder.fcmp_unordered("uno", values, values)
    rounded = builder.select(nan, quiet, builder.lshr(up, _all(bits, 16)))
    return builder.trunc(rounded, _lanes(_INT16, values))


def _lanes(number, like):
    return ir.VectorType(number, like.type.count)


def _all(like, value):
    return ir.Constant(like.type, [value] * like.type.count)


def _where(builder, test, size, limit, yes, no):
    """Lane by lane; sizes below 2**31, so that signed and unsigned order are one."""
    return builder.select(builder.icmp_signed(test, size, _all(size, limit)), yes, no)

"""round_to rounds once, to nearest even, for every value: compared with rational arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest

from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of, largest, round_to, sum_dtype, unit_roundoff

# dtype -> significant bits, exponent of the smallest subnormal
FORMATS = {"float32": (24, -149), "float16": (11, -24), "bfloat16": (8, -133)}


def nearest_even(value: float, name: str) -> float:
    """`value` rounded to the format in rational arithmetic."""
    bits, smallest = FORMATS[name]
    quantum = Fraction(2) ** max(math.frexp(value)[1] - bits, smallest)
    rounded = round(Fraction(value) / quantum) * quantum  # Fraction rounds half to even
    if abs(rounded) > Fraction(largest(dtype_of(name))):
        return math.copysign(math.inf, value)
    return math.copysign(float(rounded), value)


def hard_values(name: str) -> np.ndarray:
    """Random values of every magnitude, ties, neighbours of ties, subnormals, the edge of overflow."""
    rng, dtype = np.random.default_rng(11), dtype_of(name)
    bits, smallest = FORMATS[name]
    top = math.frexp(largest(dtype))[1]
    spread = rng.standard_normal(500) * 2.0 ** rng.integers(smallest - 3, top + 2, 500)
    held = np.abs(spread[np.abs(spread) < largest(dtype) / 2].astype(dtype))
    ties = (held.astype(float) + np.nextafter(held, dtype.type(np.inf)).astype(float)) / 2
    edge = largest(dtype) * (1 + np.array([0, 0.4, 0.5, 0.6]) * 2.0 ** (1 - bits))
    tiny = 2.0**smallest * np.array([0.5, 0.5 * (1 + 2**-50), 0.49, 1, 1.5])
    near = [ties * (1 + side * 2.0**-k) for side in (-1, 1) for k in (30, 45, 52)]
    magnitudes = np.concatenate([np.abs(spread), ties, edge, tiny, *near])
    return np.concatenate([magnitudes, -magnitudes])


@pytest.mark.parametrize("name", FORMATS)
def test_round_to_is_correctly_rounded(name):
    values = hard_values(name)
    got = round_to(values, dtype_of(name)).astype(np.float64)
    expected = np.array([nearest_even(value, name) for value in values.tolist()])
    assert np.array_equal(got, expected), values[got != expected][:5]


def test_a_cast_by_way_of_float32_would_round_twice():
    value = 1 + 2.0**-8 + 2.0**-40  # just above a bfloat16 tie; float32 makes it the tie
    assert float(round_to(np.array(value), dtype_of("bfloat16"))) == 1 + 2.0**-7
    assert float(np.float32(value).astype(dtype_of("bfloat16"))) == 1.0


@pytest.mark.parametrize("name", DTYPE_NAMES)
def test_nan_infinity_and_signed_zero_survive_rounding(name):
    got = round_to(np.array([np.nan, np.inf, -np.inf, -0.0]), dtype_of(name)).astype(np.float64)
    assert np.isnan(got[0])
    assert got[1:3].tolist() == [np.inf, -np.inf]
    assert math.copysign(1, got[3]) == -1


@pytest.mark.parametrize("name", DTYPE_NAMES)
def test_unit_roundoff_is_half_the_gap_above_one(name):
    dtype = dtype_of(name)
    assert float(np.nextafter(dtype.type(1), dtype.type(2))) - 1 == 2 * unit_roundoff(dtype)


def test_sums_of_short_dtypes_are_kept_in_float32():
    kept = {name: sum_dtype(dtype_of(name)).name for name in DTYPE_NAMES}
    assert kept == {"float64": "float64", "float32": "float32", "float16": "float32", "bfloat16": "float32"}


def test_an_unknown_dtype_is_refused_with_the_names_allowed():
    with pytest.raises(ValueError, match="'float8'; allowed: float64, float32, float16, bfloat16"):
        dtype_of("float8")

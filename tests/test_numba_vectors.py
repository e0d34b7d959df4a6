"""gamma, beta, dgamma, dbeta beside 16-bit x: converted as by NumPy, in the order of a pass, or refused."""

import numpy as np
import pytest

from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of
from layernorm_backward.kernels.lane_memory import as_stored, in_columns, in_lanes, parity_lanes
from layernorm_backward.kernels.numba_vectors import between

NARROW = [("float16", "float16"), ("bfloat16", "bfloat16"), ("bfloat16", "float32")]
SIZES = 1, 2, 31, 32, 33, 95, 1 << 16
LINE_OF_X = 32  # elements

each_size = pytest.mark.parametrize("size", SIZES)
each_narrow = pytest.mark.parametrize(("dtype", "gamma_dtype"), NARROW)


def patterns(name, size):
    """The first bit patterns of a dtype; of 1 << 16 all there are of 16 bits."""
    if name == "float32":
        return np.random.default_rng(size).integers(0, 1 << 32, size, np.uint32).view(np.float32)
    return np.arange(size, dtype=np.uint16).view(dtype_of(name))


def whole_lines(size):
    return np.full(-(-size // LINE_OF_X) * LINE_OF_X, 7, np.float32)


def assert_same(found, expected):
    """Bit by bit, but for the payload of a NaN."""
    nan = np.isnan(expected)
    assert np.array_equal(np.isnan(found), nan)
    assert np.array_equal(np.signbit(found), np.signbit(expected))
    assert np.array_equal(found[~nan], expected[~nan])


def prepared(dtype, gamma_dtype, gamma, dgamma=None, dx=None):
    """Whether a backward pass may go on, and gamma as it will take it."""
    wide, x = whole_lines(gamma.size), np.zeros((3, gamma.size), dtype_of(dtype)).reshape(-1)
    row = np.zeros(3, np.float32)
    results = [x.copy() if dx is None else dx, gamma.copy() if dgamma is None else dgamma, gamma.copy()]
    given = [as_stored(array) for array in (x.copy(), x, row, row.copy(), gamma, *results)]
    return between(dtype, gamma_dtype).before_backward(*given, wide), wide


@each_narrow
@each_size
def test_gamma_is_widened_exactly_in_the_order_of_the_pass(dtype, gamma_dtype, size):
    gamma = patterns(gamma_dtype, size)
    expected = in_lanes(gamma.astype(np.float32), parity_lanes(dtype_of(dtype)))
    went_on, wide = prepared(dtype, gamma_dtype, gamma)
    assert went_on
    padded = np.zeros(wide.size, np.float32)
    padded[: expected.size] = expected
    assert_same(wide, padded)


@each_narrow
@each_size
def test_both_vectors_of_the_forward_pass_are(dtype, gamma_dtype, size):
    gamma = patterns(gamma_dtype, size)
    beta, x = gamma[::-1].copy(), np.zeros(size, dtype_of(dtype))
    wide, given = [whole_lines(size), whole_lines(size)], map(as_stored, (x, gamma, beta, x.copy()))
    assert between(dtype, gamma_dtype).before_forward(*given, *wide)
    for vector, found in ((gamma, wide[0]), (beta, wide[1])):
        assert_same(found, prepared(dtype, gamma_dtype, vector)[1])


@each_narrow
@each_size
def test_sums_are_rounded_as_by_numpy(dtype, gamma_dtype, size):
    """Those too large for 16 bits to inf."""
    rng, lanes = np.random.default_rng(size), parity_lanes(dtype_of(dtype))
    sums = [rng.integers(0, 1 << 32, whole_lines(size).size, np.uint32).view(np.float32) for _ in range(2)]
    results = [np.zeros(size, dtype_of(gamma_dtype)) for _ in sums]
    between(dtype, gamma_dtype).after_backward(*sums, *map(as_stored, results))
    for total, result in zip(sums, results, strict=True):
        with np.errstate(over="ignore", invalid="ignore"):
            expected = in_columns(total, lanes)[:size].astype(dtype_of(gamma_dtype))
        assert_same(result, expected)


@each_narrow
def test_overlapping_arrays_are_found_before_anything_is_written(dtype, gamma_dtype):
    gamma = patterns(gamma_dtype, 40)
    went_on, wide = prepared(dtype, gamma_dtype, gamma, dgamma=gamma)
    assert not went_on
    assert np.all(wide == 7)


def test_others_need_no_conversion():
    needed = {
        (dtype, gamma_dtype)
        for dtype in DTYPE_NAMES
        for gamma_dtype in {dtype, "float32"}
        if between(dtype, gamma_dtype) is not None
    }
    assert needed == set(NARROW)

"""Bad input: every kernel refuses it with the value and what is allowed."""

import re
import warnings
from fractions import Fraction

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from host_kernels import HOST
from layernorm_backward.dtypes import dtype_of

pytestmark = pytest.mark.parametrize("kernel", HOST)

ONES = np.ones(4)
FORWARD = {"x": np.ones((3, 4)), "gamma": ONES, "beta": ONES, "eps": 1e-5, "out": None}
NUMPY_ONLY = "allowed: numpy.ndarray (this kernel runs on the CPU)"
POSITIVE = "allowed: finite and > 0"


class Elsewhere:
    """Stands for an array on a GPU: named like CuPy's, and no NumPy array."""

    __module__, __qualname__ = "cupy", "ndarray"


def read_only(array):
    array.flags.writeable = False
    return array


BAD_FORWARD = [
    ({"x": [[1.0]]}, TypeError, f"x is a builtins.list of 1; {NUMPY_ONLY}"),
    ({"x": Elsewhere()}, TypeError, f"x is a cupy.ndarray; {NUMPY_ONLY}"),
    ({"x": np.ma.ones((3, 4))}, TypeError, f"x is a numpy.ma.MaskedArray; {NUMPY_ONLY}"),
    ({"x": 1.0}, TypeError, f"x is a builtins.float; {NUMPY_ONLY}"),
    ({"x": np.array(1.0)}, ValueError, "x has shape (); allowed: (..., D) with D >= 1"),
    ({"x": np.ones((3, 0))}, ValueError, "x has shape (3, 0); allowed: (..., D) with D >= 1"),
    ({"x": np.ones((3, 4), int)}, TypeError, "x has dtype int64; allowed: float64"),
    ({"x": np.ones((3, 4), object)}, TypeError, "x has dtype object; allowed: float64"),
    ({"x": np.ones((3, 4), np.complex64)}, TypeError, "x has dtype complex64; allowed: float64"),
    ({"x": np.ones((3, 4), ">f8")}, TypeError, "x has dtype >f8; allowed: float64"),
    ({"gamma": np.ones(3)}, ValueError, "gamma has shape (3,); allowed: (4,), the last axis of x"),
    ({"gamma": np.ones((1, 4))}, ValueError, "gamma has shape (1, 4); allowed: (4,), the last axis of x"),
    ({"beta": np.array(1.0)}, ValueError, "beta has shape (); allowed: (4,), the last axis of x"),
    ({"beta": 0}, TypeError, f"beta is a builtins.int; {NUMPY_ONLY}"),
    (
        {"gamma": np.ones(4, np.float32)},
        TypeError,
        "gamma has dtype float32 beside x of float64; allowed: float64",
    ),
    (
        {"x": np.ones((3, 4), np.float32)},
        TypeError,
        "gamma has dtype float64 beside x of float32; allowed: float32",
    ),
    ({"beta": np.ones(4, np.float32)}, TypeError, "beta has dtype float32; allowed: float64, as gamma"),
    ({"eps": 0}, ValueError, f"eps is 0; {POSITIVE}"),
    ({"eps": -1e-5}, ValueError, f"eps is -1e-05; {POSITIVE}"),
    ({"eps": float("nan")}, ValueError, f"eps is nan; {POSITIVE}"),
    ({"eps": float("inf")}, ValueError, f"eps is inf; {POSITIVE}"),
    ({"eps": 10**400}, ValueError, "eps is 1000000"),
    ({"eps": True}, TypeError, "eps is True, a builtins.bool; allowed: a real number"),
    ({"eps": np.True_}, TypeError, "eps is np.True_, a numpy.bool; allowed: a real number"),
    ({"eps": "1e-5"}, TypeError, "eps is '1e-5', a builtins.str; allowed: a real number"),
    ({"eps": None}, TypeError, "eps is None, a builtins.NoneType; allowed: a real number"),
    ({"eps": 1e-5j}, TypeError, "eps is 1e-05j, a builtins.complex; allowed: a real number"),
    ({"out": (1, 2)}, TypeError, f"out is a builtins.tuple of 2; {NUMPY_ONLY}"),
    ({"out": np.ones((4, 3))}, ValueError, "out has shape (4, 3); allowed: (3, 4)"),
    ({"out": np.ones((3, 4), np.float32)}, TypeError, "out has dtype float32; allowed: float64"),
    (
        {"out": read_only(np.ones((3, 4)))},
        ValueError,
        "out is read-only; allowed: an array that can be written",
    ),
    (
        {"out": FORWARD["x"]},
        ValueError,
        "out overlaps another array of the call; allowed: memory of its own",
    ),
    (
        {"out": as_strided(np.ones(6), (3, 4), (8, 8))},
        ValueError,
        "out overlaps itself, its strides are (8, 8); allowed: no element twice",
    ),
    (
        {"out": as_strided(np.ones(17), (3, 4), (16, 32))},
        ValueError,
        "out overlaps itself, its strides are (16, 32); allowed: no element twice",
    ),
]


@pytest.mark.parametrize(
    ("change", "error", "message"), BAD_FORWARD, ids=[case[2][:40] for case in BAD_FORWARD]
)
def test_forward_refuses(kernel, change, error, message):
    with pytest.raises(error, match="^" + re.escape(message)):
        HOST[kernel].forward(**(FORWARD | change))


@pytest.mark.parametrize(("dtype", "integers"), [(np.float16, np.int16), (dtype_of("bfloat16"), np.uint16)])
def test_integers_are_not_taken_for_the_bits_of_16_bit_floating_point(kernel, dtype, integers):
    x, ones = np.ones((3, 4), dtype), np.ones(4, dtype)
    with pytest.raises(TypeError, match=f"^beta has dtype {np.dtype(integers)}; allowed: {np.dtype(dtype)}"):
        HOST[kernel].forward(x, ones, ones.view(integers), 1e-5)


def test_columns_of_one_array_may_be_input_and_output(kernel):
    """Their bounds overlap; no element does."""
    packed = np.arange(40.0).reshape(4, 10)
    x, out = packed[:, :5], packed[:, 5:]
    ones = np.ones(5)
    y, _ = HOST[kernel].forward(x, ones, ones, 1e-5, out=out)
    assert y is out
    assert np.array_equal(y, HOST[kernel].forward(x.copy(), ones, ones, 1e-5)[0])


def test_rows_that_lie_in_each_others_gaps_may_be_output(kernel):
    out = as_strided(np.zeros(14), (3, 4), (16, 24))
    x, ones = np.arange(12.0).reshape(3, 4) ** 2, np.ones(4)
    y, _ = HOST[kernel].forward(x, ones, ones, 1e-5, out=out)
    assert y is out
    assert np.array_equal(y, HOST[kernel].forward(x, ones, ones, 1e-5)[0])


DY = np.ones((3, 4))
BAD_BACKWARD = [
    ({"saved": None}, TypeError, "saved is a builtins.NoneType; allowed: what forward returned"),
    ({"saved": (DY,)}, TypeError, "saved is a builtins.tuple of 1; allowed: what forward returned"),
    ({"dy": None}, TypeError, f"dy is a builtins.NoneType; {NUMPY_ONLY}"),
    ({"dy": np.ones((4, 3))}, ValueError, "dy has shape (4, 3); allowed: (3, 4), as x in the forward pass"),
    ({"dy": np.ones(4)}, ValueError, "dy has shape (4,); allowed: (3, 4), as x in the forward pass"),
    (
        {"dy": np.ones((3, 4), np.float32)},
        TypeError,
        "dy has dtype float32; allowed: float64, as x in the forward pass",
    ),
    ({"out": DY.copy()}, TypeError, "out is a numpy.ndarray; allowed: None or the tuple (dx, dgamma, dbeta)"),
    ({"out": (DY, ONES)}, TypeError, "out is a builtins.tuple of 2; allowed: None or the tuple"),
    ({"out": (ONES, ONES, ONES)}, ValueError, "out dx has shape (4,); allowed: (3, 4)"),
    (
        {"out": (np.ones((3, 4)), np.ones(4), np.ones((1, 4)))},
        ValueError,
        "out dbeta has shape (1, 4); allowed: (4,)",
    ),
    (
        {"out": (np.ones((3, 4)), np.ones(4, int), np.ones(4))},
        TypeError,
        "out dgamma has dtype int64; allowed: float64",
    ),
    ({"out": (DY, np.ones(4), np.ones(4))}, ValueError, "out dx overlaps another array of the call"),
    ({"out": (np.ones((3, 4)), ONES, np.ones(4))}, ValueError, "out dgamma overlaps another array"),
    ({"out": (np.ones((3, 4)), *[np.ones(4)] * 2)}, ValueError, "out dbeta overlaps another array"),
]


@pytest.mark.parametrize(
    ("change", "error", "message"), BAD_BACKWARD, ids=[case[2][:40] for case in BAD_BACKWARD]
)
def test_backward_refuses(kernel, change, error, message):
    _, saved = HOST[kernel].forward(np.ones((3, 4)), ONES, ONES, 1e-5)
    with pytest.raises(error, match="^" + re.escape(message)):
        HOST[kernel].backward(**({"dy": DY, "saved": saved, "out": None} | change))


def test_forward_refuses_an_eps_that_vanishes_or_overflows_in_the_dtype_of_the_sums(kernel):
    x, ones = np.ones((3, 4), np.float32), np.ones(4, np.float32)
    for eps, kept in ((1e-60, "0.0"), (1e60, "inf")):
        message = (
            f"eps is {eps!r}, which is {kept} in float32, the dtype of the sums; allowed: finite and > 0"
        )
        with pytest.raises(ValueError, match="^" + re.escape(message)):
            HOST[kernel].forward(x, ones, ones, eps)


def test_forward_names_the_reason_for_a_dtype_that_the_kernel_lacks(kernel):
    for name, reason in HOST[kernel].unsupported.items():
        x, ones = np.ones((3, 4), dtype_of(name)), np.ones(4, dtype_of(name))
        allowed = ", ".join(HOST[kernel].dtypes)
        with pytest.raises(TypeError, match=re.escape(f"x has dtype {name}; allowed: {allowed} ({reason})")):
            HOST[kernel].forward(x, ones, ones, 1e-5)


@pytest.mark.parametrize("eps", [np.float32(2**-10), np.float64(2**-10), Fraction(1, 1024)], ids=repr)
def test_eps_may_be_any_real_number(kernel, eps):
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    ones = np.ones(4, np.float32)
    y, _ = HOST[kernel].forward(x, ones, ones, eps)
    assert np.array_equal(y, HOST[kernel].forward(x, ones, ones, 2.0**-10)[0])


def test_a_row_whose_squares_overflow_spoils_no_other_and_warns_of_none(kernel):
    """Its own x_hat is 0 or NaN, but where sums are wider than x."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    x[1] *= np.float32(1e20)
    ones = np.ones(4, np.float32)
    with warnings.catch_warnings(action="error"):
        y, saved = HOST[kernel].forward(x, ones, np.zeros_like(ones), 1e-5)
        dx, *_ = HOST[kernel].backward(x, saved)
    right, _ = HOST[kernel].forward(x[::2].copy(), ones, np.zeros_like(ones), 1e-5)
    assert np.array_equal(y[::2], right) and np.isfinite(dx[::2]).all()
    assert kernel == "reference" or not np.nan_to_num(y[1]).any()

"""Properties that hold for every row, gamma and dy, of every kernel; hypothesis looks for exceptions.

x holds integers times 2**-3 up to 8, so shifts and scalings by powers of two are exact: what differs after
them is the kernel's doing. eps is 2**-10.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from layernorm_backward.dtypes import unit_roundoff
from layernorm_backward.kernels import KERNELS, missing

HOST = [name for name in KERNELS if not missing(KERNELS[name]) and KERNELS[name].device == "cpu"]
EPS = 2.0**-10
pytestmark = [
    pytest.mark.parametrize("kernel", HOST),
    pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=lambda dtype: dtype.__name__),
]


@st.composite
def problems(draw):
    """x, gamma, dy in float64, all of them numbers that float32 holds."""
    shape = draw(st.tuples(st.integers(1, 3), st.integers(1, 24)))
    eighths = st.integers(-64, 64).map(lambda value: value / 8)
    return tuple(draw(arrays.arrays(np.float64, size, elements=eighths)) for size in (shape, shape[1], shape))


def run(kernel, dtype, x, gamma, dy, eps=EPS):
    """dx, dgamma, dbeta; and the sizes of the terms that dx (a row each) and dgamma are summed from."""
    x, gamma, dy = (np.ascontiguousarray(array, dtype) for array in (x, gamma, dy))
    _, saved = KERNELS[kernel].forward(x, gamma, np.zeros_like(gamma), eps)
    rstd = 1 / np.sqrt(x.var(axis=-1, keepdims=True, dtype=np.float64) + eps)
    terms = rstd * (np.abs(gamma * dy).max(axis=-1, keepdims=True) + 1e-30)
    return KERNELS[kernel].backward(dy, saved), terms, np.abs(dy).sum() + 1e-30


@given(data=problems())
def test_each_row_of_dx_sums_to_zero(kernel, dtype, data):
    (dx, _, _), terms, _ = run(kernel, dtype, *data)
    u, hidden = unit_roundoff(dtype), dx.shape[-1]
    kappa = np.sqrt(1 + np.square(data[0]).max() / EPS)  # of a row of variance 0, where x_hat is all rounding
    total = np.abs(dx.astype(np.float64).sum(axis=-1, keepdims=True))
    assert (total <= hidden * (8 + hidden * kappa) * u * terms).all()


@given(data=problems(), power=st.integers(3, 9))
def test_a_shift_of_x_changes_no_gradient(kernel, dtype, data, power):
    x, gamma, dy = data
    shift = 2.0**power
    (dx, dgamma, dbeta), terms, dy_size = run(kernel, dtype, x, gamma, dy)
    moved, _, _ = run(kernel, dtype, x + shift, gamma, dy)
    u, hidden = unit_roundoff(dtype), x.shape[-1]
    recentred = kernel in ("recentred", "numba_fused")
    kappa = 4 if recentred else (8 + shift) / np.sqrt(EPS)
    allowed = (32 + 8 * hidden) * kappa * u
    assert (np.abs(moved[0] - dx) <= allowed * terms).all()
    assert (np.abs(moved[1] - dgamma) <= allowed * dy_size).all()
    assert np.array_equal(moved[2], dbeta)


@given(data=problems(), power=st.integers(-8, 8))
def test_scaling_x_by_s_and_eps_by_s_squared_divides_dx_by_s(kernel, dtype, data, power):
    """To the last bit, s being a power of two."""
    x, gamma, dy = data
    (dx, dgamma, _), _, _ = run(kernel, dtype, x, gamma, dy)
    s = 2.0**power
    scaled, _, _ = run(kernel, dtype, s * x, gamma, dy, eps=s**2 * EPS)
    assert np.array_equal(scaled[0] * dtype(s), dx)
    assert np.array_equal(scaled[1], dgamma)


@given(data=problems(), factor=st.integers(-64, 64))
def test_gradients_are_linear_in_dy(kernel, dtype, data, factor):
    x, gamma, dy = data
    other = dy[::-1, ::-1] * 2.0**-3
    parts, terms, size = run(kernel, dtype, x, gamma, dy)
    others, other_terms, other_size = run(kernel, dtype, x, gamma, other)
    both, _, _ = run(kernel, dtype, x, gamma, factor * dy + other)
    allowed = (32 + 4 * x.shape[-1]) * unit_roundoff(dtype)
    sizes = (abs(factor) * terms + other_terms, *[abs(factor) * size + other_size] * 2)
    for result, part, rest, scale in zip(both, parts, others, sizes, strict=True):
        assert (np.abs(result - (dtype(factor) * part + rest)) <= allowed * scale).all()


@given(data=problems())
def test_rows_do_not_see_each_other(kernel, dtype, data):
    x, gamma, dy = data
    (dx, _, _), _, _ = run(kernel, dtype, x, gamma, dy)
    for n in range(len(x)):
        (alone, _, _), _, _ = run(kernel, dtype, x[n : n + 1], gamma, dy[n : n + 1])
        assert np.array_equal(alone[0], dx[n])

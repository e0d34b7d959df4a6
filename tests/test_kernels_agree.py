"""Every kernel against the reference: dtypes x sizes x layouts, and what the contract promises of all."""

import numpy as np
import pytest

from emulated import placed
from host_kernels import HOST
from layernorm_backward.dtypes import dtype_of, unit_roundoff

EPS = 1e-5
HIDDEN = (1, 2, 3, 127, 128, 129, 1000, 4097)
ROWS = (0, 1, 2, 33)

# Largest error of a result, in units of u of its dtype, over the size of the terms that it is summed from.
TOLERANCE_U = {
    "float64": 8,  # some ten roundings, sums of depth 20, and the reference errs as much; 3.7 was seen
    "float32": 8,  # likewise, but for the reference; 3.2 was seen
    "float16": 1.5,  # float32 inside: one rounding of the result, one of a saved x_hat; 0.9 was seen
    "bfloat16": 1.5,  # likewise
}

CASES = [(name, dtype) for name in HOST for dtype in HOST[name].dtypes]
each_case = pytest.mark.parametrize(
    ("kernel", "dtype"), CASES, ids=[f"{name}-{dtype}" for name, dtype in CASES]
)


def run(kernel, x, gamma, beta, dy, eps=EPS):
    """y, dx, dgamma, dbeta of a kernel given by name."""
    y, saved = HOST[kernel].forward(x, gamma, beta, eps)
    return y, *HOST[kernel].backward(dy, saved)


def worst_error_u(results, x, gamma, beta, dy, eps=EPS):
    """The largest row-wise error of the four results, in u, relative to the terms behind each element."""
    wide = [array.astype(np.float64) for array in (x, gamma, beta, dy)]
    exact = run("reference", *wide, eps=eps)
    rows = [array.reshape(-1, x.shape[-1]) for array in (wide[0], wide[3])]
    centred = rows[0] - rows[0].mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + eps)
    x_hat, g = centred * rstd, wide[1] * rows[1]
    terms = (
        np.abs(wide[1] * x_hat) + np.abs(wide[2]),
        rstd * np.sqrt(np.square(g).mean(axis=-1, keepdims=True)) + 0 * g,
        np.abs(rows[1] * x_hat).sum(axis=0),
        np.abs(rows[1]).sum(axis=0),
    )
    worst = 0.0
    for result, right, term in zip(results, exact, terms, strict=True):
        error = (result.astype(np.float64) - right).reshape(term.shape)
        size = np.linalg.norm(term, axis=-1)
        scaled = np.linalg.norm(error, axis=-1) / np.where(size > 0, size, 1.0)
        worst = max(worst, scaled.max(initial=0.0) / unit_roundoff(result.dtype))
    return worst


@each_case
def test_agrees_with_the_reference_at_every_size(kernel, dtype, problem):
    for hidden in HIDDEN:
        for rows in ROWS:
            data = problem((rows, hidden), dtype)
            assert worst_error_u(run(kernel, *data), *data) <= TOLERANCE_U[dtype], (rows, hidden)


@each_case
@pytest.mark.parametrize("shape", [(129,), (2, 3, 129), (2, 0, 5), (1, 1, 1)], ids=str)
def test_takes_any_leading_dimensions(kernel, dtype, shape, problem):
    data = problem(shape, dtype)
    results = run(kernel, *data)
    assert [result.shape for result in results] == [shape, shape, shape[-1:], shape[-1:]]
    assert [result.dtype for result in results] == [dtype_of(dtype)] * 4
    assert worst_error_u(results, *data) <= TOLERANCE_U[dtype]


def _every_second(array):
    return np.repeat(array, 2, axis=-1)[..., ::2]


def _transposed(array):
    return np.asfortranarray(array)


def _reversed(array):
    return np.ascontiguousarray(array[..., ::-1])[..., ::-1]


def _misaligned(array):
    buffer = np.zeros(array.nbytes + 1, np.uint8)[1:]
    view = buffer.view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def _one_element_on(array):
    return placed(array, 1)


def _read_only(array):
    copy = array.copy()
    copy.flags.writeable = False
    return copy


@each_case
@pytest.mark.parametrize(
    "layout", [_every_second, _transposed, _reversed, _misaligned, _one_element_on, _read_only]
)
def test_takes_any_layout(kernel, dtype, layout, problem):
    data = problem((2, 33, 129), dtype)
    results = run(kernel, *(layout(array) for array in data))
    assert worst_error_u(results, *data) <= TOLERANCE_U[dtype]


@each_case
@pytest.mark.parametrize("layout", [np.ascontiguousarray, _every_second, _transposed, _misaligned])
def test_writes_into_the_arrays_it_is_given(kernel, dtype, layout, problem):
    data = problem((4, 33, 129), dtype)
    usual = run(kernel, *data)
    y, *gradients = (layout(np.full_like(result, 7)) for result in usual)
    y_returned, saved = HOST[kernel].forward(*data[:3], EPS, out=y)
    returned = HOST[kernel].backward(data.dy, saved, out=tuple(gradients))
    for given, got, wanted in zip((y, *gradients), (y_returned, *returned), usual, strict=True):
        assert got is given
        assert np.array_equal(given, wanted)


@each_case
def test_results_may_begin_an_element_off_16_bytes(kernel, dtype, problem):
    """Their bits may be others then: cuda_fused adds rows that lie so in another order."""
    data = problem((33, 129), dtype)
    y, *gradients = (_one_element_on(np.full_like(result, 7)) for result in run(kernel, *data))
    _, saved = HOST[kernel].forward(*data[:3], EPS, out=y)
    HOST[kernel].backward(data.dy, saved, out=tuple(gradients))
    assert worst_error_u((y, *gradients), *data) <= TOLERANCE_U[dtype]


@each_case
def test_changes_neither_inputs_nor_saved_arrays_and_repeats_its_bits(kernel, dtype, problem):
    data = problem((130, 129), dtype)
    before = [array.copy() for array in data]
    y, saved = HOST[kernel].forward(*data[:3], EPS)
    kept = [np.copy(value) for value in saved]
    first = HOST[kernel].backward(data.dy, saved)
    second = HOST[kernel].backward(data.dy, saved)
    assert np.array_equal(y, HOST[kernel].forward(*data[:3], EPS)[0])
    for one, other in zip((*data, *saved, *first), (*before, *kept, *second), strict=True):
        assert np.array_equal(one, other)


@each_case
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_a_poisoned_row_spoils_its_own_dx_and_no_other(kernel, dtype, poison, problem):
    data = problem((130, 129), dtype)
    y, dx, _, _ = run(kernel, *data)
    data.x[70, 5] = poison
    y_spoilt, dx_spoilt, dgamma, dbeta = run(kernel, *data)
    others = np.arange(130) != 70
    assert np.isnan(dx_spoilt[70].astype(np.float64)).all()
    assert np.isnan(dgamma.astype(np.float64)).all()
    assert np.isfinite(dbeta.astype(np.float64)).all()
    assert np.array_equal(dx_spoilt[others], dx[others])
    assert np.array_equal(y_spoilt[others], y[others])


@each_case
def test_a_constant_row_has_no_x_hat(kernel, dtype, problem):
    data = problem((3, 100), dtype)
    data.x[...] = np.array([[0], [3], [-40]])
    y, dx, dgamma, _ = run(kernel, *data)
    assert np.array_equal(y, np.broadcast_to(data.beta, y.shape))
    assert not dgamma.any()
    assert worst_error_u((y, dx, *run(kernel, *data)[2:]), *data) <= TOLERANCE_U[dtype]


@each_case
def test_one_column_gives_beta_and_no_gradient(kernel, dtype, problem):
    data = problem((200, 1), dtype)
    y, dx, dgamma, _ = run(kernel, *data)
    assert np.array_equal(y, np.broadcast_to(data.beta, y.shape))
    assert not dx.any()
    assert not dgamma.any()


@pytest.mark.parametrize("kernel", [name for name in HOST if "float16" in HOST[name].dtypes])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gamma_may_be_float32_beside_16_bit_x(kernel, dtype, problem):
    data = problem((33, 129), dtype, "float32")
    y, dx, dgamma, dbeta = run(kernel, *data)
    assert [y.dtype, dx.dtype] == [dtype_of(dtype)] * 2
    assert [dgamma.dtype, dbeta.dtype] == [np.float32] * 2
    narrowed = y, dx, dgamma.astype(dtype_of(dtype)), dbeta.astype(dtype_of(dtype))
    assert worst_error_u(narrowed, *data) <= TOLERANCE_U[dtype]


def test_every_kernel_takes_every_dtype():
    assert [name for name in HOST if HOST[name].unsupported] == []

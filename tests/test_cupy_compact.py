"""The compact formula in CuPy: on NumPy's arrays the published one bit for bit, on a device right."""

import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from layernorm_backward import inputs, oracle
from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of, gamma_names, sum_dtype, unit_roundoff
from layernorm_backward.kernels import KERNELS, cupy_compact, device_missing, missing
from layernorm_backward.kernels.checks import HOST

EPS = 1e-5
ON_NUMPY = SimpleNamespace(arrays=HOST)
NO_DEVICE = missing(cupy_compact.KERNEL)
LIMIT_U = {"float64": 8, "float32": 8, "float16": 1.5, "bfloat16": 1.5}  # as in test_kernels_agree
PAIRS = [(dtype, gamma_dtype) for dtype in DTYPE_NAMES for gamma_dtype in gamma_names(dtype)]
each_pair = pytest.mark.parametrize(("dtype", "gamma_dtype"), PAIRS)


def run(data, eps=EPS):
    """y, what is saved, dx, dgamma, dbeta."""
    y, saved = cupy_compact.forward(*data[:3], eps, machine=ON_NUMPY)
    return y, saved, *cupy_compact.backward(data.dy, saved, machine=ON_NUMPY)


def assert_same_bits(results, others):
    for one, other in zip(results, others, strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()


@each_pair
@pytest.mark.parametrize("eps", [EPS, 1e-3])
def test_on_numpy_it_has_the_bits_of_the_published_kernel(problem, dtype, gamma_dtype, eps):
    for shape in ((0, 5), (1, 64), (33, 1), (33, 3), (33, 257)):
        data = problem(shape, dtype, gamma_dtype)
        y, saved, *gradients = run(data, eps)
        y_published, kept = KERNELS["compact"].forward(*data[:3], eps)
        assert saved.D == kept.D
        assert_same_bits((y, *saved[:3]), (y_published, *kept[:3]))
        assert_same_bits(gradients, KERNELS["compact"].backward(data.dy, kept))


@pytest.mark.parametrize("shape", [(129,), (2, 3, 129), (2, 0, 5), (1, 1, 1)], ids=str)
def test_takes_any_leading_dimensions(problem, shape):
    data = problem(shape)
    y, _, *gradients = run(data)
    y_published, kept = KERNELS["compact"].forward(*data[:3], EPS)
    assert [one.shape for one in (y, *gradients)] == [shape, shape, shape[-1:], shape[-1:]]
    for one, other in zip(
        (y, *gradients), (y_published, *KERNELS["compact"].backward(data.dy, kept)), strict=True
    ):
        assert np.allclose(one, other, rtol=1e-13, atol=1e-13)


def every_second(array):
    return np.repeat(array, 2, axis=-1)[..., ::2]


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, every_second])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_takes_and_writes_any_layout(problem, layout, dtype):
    data = problem((33, 65), dtype)
    usual_y, _, *usual = run(data)
    x, gamma, beta, dy = (layout(array) for array in data)
    y, *gradients = (layout(np.full_like(result, 7)) for result in (usual_y, *usual))
    y_returned, saved = cupy_compact.forward(x, gamma, beta, EPS, y, machine=ON_NUMPY)
    returned = cupy_compact.backward(dy, saved, tuple(gradients), machine=ON_NUMPY)
    wide = unit_roundoff(sum_dtype(dtype_of(dtype)))
    slack = 64 * wide + 2 * unit_roundoff(dtype_of(dtype))  # where rows lie apart NumPy sums in another order
    for given, got, wanted in zip((y, *gradients), (y_returned, *returned), (usual_y, *usual), strict=True):
        assert got is given
        assert np.allclose(inputs.values(given), inputs.values(wanted), rtol=slack, atol=slack)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_a_row_of_nan_spoils_its_own_dx_and_no_other(problem, dtype):
    data = problem((33, 65), dtype)
    _, _, dx, *_ = run(data)
    data.x[20, 5] = np.nan
    spoilt, dgamma, dbeta = (inputs.values(array) for array in run(data)[2:])
    others = np.arange(33) != 20
    assert np.isnan(spoilt[20]).all() and np.isnan(dgamma).all() and np.isfinite(dbeta).all()
    assert np.array_equal(spoilt[others], inputs.values(dx)[others])


def test_input_is_checked_by_the_machine_s_arrays(problem):
    x, gamma, beta, dy = problem((3, 4))
    with pytest.raises(TypeError, match=re.escape("x is a builtins.list of 1; allowed: numpy.ndarray")):
        cupy_compact.forward([[1.0]], gamma, beta, EPS, machine=ON_NUMPY)
    _, saved = cupy_compact.forward(x, gamma, beta, EPS, machine=ON_NUMPY)
    with pytest.raises(ValueError, match=re.escape("dy has shape (3, 3); allowed: (3, 4)")):
        cupy_compact.backward(dy[:, :3], saved, machine=ON_NUMPY)


def test_cupy_has_the_functions_that_it_calls(problem, monkeypatch):
    cupy = pytest.importorskip("cupy")
    called = set()

    class Noting:
        def __getattr__(self, name):
            called.add(name)
            return getattr(np, name)

    monkeypatch.setattr(cupy_compact, "_module", lambda arrays: Noting())
    run(problem((3, 4)))
    assert called == {"sqrt", "add", "multiply"}
    assert all(isinstance(getattr(cupy, name), cupy.ufunc) for name in called)
    assert cupy_compact.KERNEL.unsupported == {}
    assert "EE->E" in cupy.multiply.types  # E: bfloat16


def test_the_module_is_that_of_the_arrays():
    cupy = pytest.importorskip("cupy")
    assert cupy_compact._module(HOST) is np
    assert cupy_compact._module(HOST._replace(empty=cupy.empty)) is cupy


def test_importing_it_needs_no_cupy():
    code = f"import sys; import {cupy_compact.__name__}; print('cupy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


@pytest.mark.skipif(NO_DEVICE is None, reason="there is a device")
def test_without_a_device_the_reason_is_reported(problem):
    with pytest.raises(RuntimeError, match=re.escape(device_missing())):
        cupy_compact.forward(*problem((2, 3))[:3], EPS)


@pytest.mark.skipif(NO_DEVICE is not None, reason=str(NO_DEVICE))
@each_pair
def test_on_a_device_it_is_right(problem, dtype, gamma_dtype):
    import cupy

    data = problem((33, 257), dtype, gamma_dtype)
    y, saved = cupy_compact.forward(*(cupy.asarray(array) for array in data[:3]), EPS)
    results = (y, *cupy_compact.backward(cupy.asarray(data.dy), saved))
    x, gamma, beta, dy = (inputs.values(array) for array in data)
    exact = oracle.results(x, gamma, beta, dy, EPS)
    x_hat, rstd = (part.hi for part in oracle.normalize(x, EPS))
    terms = (
        np.abs(gamma * x_hat) + np.abs(beta),
        rstd[:, None] * gamma * dy,
        np.abs(dy * x_hat).sum(axis=0),
        np.abs(dy).sum(axis=0),
    )
    for found, right, term in zip(results, exact, terms, strict=True):
        error = np.linalg.norm(inputs.values(cupy.asnumpy(found)) - right.hi, axis=-1)
        limit = LIMIT_U[dtype] * unit_roundoff(dtype_of(dtype))
        assert np.all(error <= limit * np.linalg.norm(term, axis=-1))

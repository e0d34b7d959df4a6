"""Numbers of the tables of errors: the same with the vector instructions of this processor and without."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

from layernorm_backward.portable import decades, norm, power

NUMBERS = """
import numpy as np
from layernorm_backward import inputs, oracle, outliers
from layernorm_backward.audit.setting import STANDARD
from layernorm_backward.derivations.closed_form import chain_rule
from layernorm_backward.gradient_check import tolerance
from layernorm_backward.gradient_check.comparison import Comparison
from layernorm_backward.gradient_check.methods import central
from layernorm_backward.gradient_check.points import Point
from layernorm_backward.theory import identity
from layernorm_backward.theory.exact_rows import exact_rows

rng = inputs.generator(7)
x, dy = rng.standard_normal((2, 16, 67)) + 100
gamma, beta = rng.standard_normal((2, 67))
found = tolerance.model(Point(x, gamma, beta, dy), 1e-5)
exact = exact_rows(oracle.moments(x), gamma, beta, dy, 1e-5)
off = identity.Deviation(*rng.uniform(-1e-3, 1e-3, (2, 16, 1)))
numbers = [
    *chain_rule(x, gamma, beta, dy, 1e-5),
    *(tolerance.best_step(found, central(order)) for order in (2, 4, 6)),
    tolerance.dx_tolerance(found, central(4), 0.01),
    np.float64(tolerance.parameter_tolerance(found, central(2), 1.0)),
    *Comparison("dx", "rows", x, x + dy, np.abs(dy[..., 0]), 1).measures().values(),
    *identity.propagated(exact, off),
    *(STANDARD.kappas(dtype) for dtype in ("float64", "float32", "bfloat16")),
    outliers.rows(rng, 4, 64, np.float32, 2e7),
]
print(*(np.asarray(number).tobytes().hex() for number in numbers))
"""


def printed(**settings: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", NUMBERS], env=os.environ | settings, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_numbers_are_the_same_without_the_vector_instructions_that_numpy_chooses():
    known = [name for name in __cpu_dispatch__ if __cpu_features__[name]]
    if not known:
        pytest.skip("NumPy has but one kind of loops for this processor")
    assert printed() == printed(NPY_DISABLE_CPU_FEATURES=" ".join(known))


@pytest.mark.skipif(not __cpu_features__.get("AVX2"), reason="OpenBLAS has no kernels for others to run here")
@pytest.mark.parametrize("design", ["Nehalem", "Haswell", "Zen"])
def test_numbers_are_the_same_with_the_kernels_that_blas_has_for_other_processors(design):
    assert printed() == printed(OPENBLAS_CORETYPE=design)


def test_a_power_is_that_of_the_c_library():
    base = np.array([[1e-100, 0.3, 1.0], [2.0, 7.7, 1e100]])
    found = power(base, -1.5)
    assert found.dtype == np.float64 and found.shape == base.shape
    assert found.ravel().tolist() == [math.pow(number, -1.5) for number in base.ravel()]
    with pytest.raises(OverflowError):
        power(1e300, 2)


def test_decades_have_equal_ratios_between_exact_ends():
    found = decades(1.0, 2.0**52, 16)
    assert (found[0], found[-1], found.size) == (1.0, 2.0**52, 16)
    assert np.allclose(found, np.geomspace(1.0, 2.0**52, 16), rtol=1e-14, atol=0)
    assert decades(3.0, 5.0, 1).tolist() == [3.0]


def test_a_norm_is_that_of_sums_in_pairs_whatever_blas_adds_up():
    array = np.random.default_rng(5).normal(size=(40, 1000)) * 10.0 ** np.linspace(-3, 3, 1000)
    found = norm(array)
    assert found == np.sqrt(np.add.reduce(array.ravel() * array.ravel()))
    assert found == pytest.approx(math.sqrt(math.fsum((array * array).ravel())), rel=1e-15)
    assert norm(np.zeros((0, 3))) == 0 and norm([3.0, 4.0]) == 5

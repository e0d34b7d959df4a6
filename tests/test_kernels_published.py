"""The two published implementations as described: what they save, and the order of operations."""

import numpy as np
import pytest

from layernorm_backward.dtypes import dtype_of
from layernorm_backward.kernels import KERNELS


def test_defaults_of_eps_are_the_published_ones():
    assert {name: KERNELS[name].default_eps for name in ("compact", "overcached")} == {
        "compact": 1e-5,
        "overcached": 1e-8,
    }


def test_compact_saves_three_tensors_and_one_integer(problem):
    x, gamma, beta, _ = problem((2, 3, 129))
    _, saved = KERNELS["compact"].forward(x, gamma, beta, 1e-5)
    assert saved._fields == ("x_hat", "rstd", "gamma", "D")
    assert [np.shape(value) for value in saved] == [(2, 3, 129), (2, 3, 1), (129,), ()]
    assert saved.D == 129


def test_overcached_saves_eight_tensors_and_four_scalars(problem):
    x, gamma, beta, _ = problem((2, 3, 129))
    _, saved = KERNELS["overcached"].forward(x, gamma, beta, 1e-8)
    tensors = ("x", "x_centered", "x_norm", "mean", "var", "std", "gamma", "beta")
    assert saved._fields == (*tensors, "eps", "B", "T", "D")
    assert saved.x is x
    assert saved[8:] == (1e-8, 2, 3, 129)
    assert np.allclose(saved.var, x.var(axis=-1, keepdims=True), rtol=1e-14, atol=0)


@pytest.mark.parametrize(
    ("shape", "sizes"), [((5,), (1, 1, 5)), ((3, 5), (1, 3, 5)), ((2, 4, 3, 5), (8, 3, 5))]
)
def test_overcached_counts_other_leading_dimensions_as_b_and_t(shape, sizes, problem):
    x, gamma, beta, _ = problem(shape)
    assert KERNELS["overcached"].forward(x, gamma, beta, 1e-8)[1][-3:] == sizes


def test_compact_multiplies_by_rstd_outside_the_bracket(problem):
    x, gamma, beta, dy = problem((2, 3, 129))
    _, saved = KERNELS["compact"].forward(x, gamma, beta, 1e-5)
    dx, _, _ = KERNELS["compact"].backward(dy, saved)
    g = gamma * dy
    mean_g, mean_gx = g.mean(-1, keepdims=True), (g * saved.x_hat).mean(-1, keepdims=True)
    assert np.array_equal(dx, saved.rstd * (g - mean_g - saved.x_hat * mean_gx))
    assert not np.array_equal(dx, saved.rstd * g - saved.rstd * mean_g - saved.rstd * saved.x_hat * mean_gx)


def test_overcached_divides_by_std_last(problem):
    x, gamma, beta, dy = problem((2, 3, 129))
    _, saved = KERNELS["overcached"].forward(x, gamma, beta, 1e-8)
    dx, _, _ = KERNELS["overcached"].backward(dy, saved)
    dz, D = dy * gamma, 129
    sums = dz.sum(-1, keepdims=True), (dz * saved.x_norm).sum(-1, keepdims=True)
    assert np.array_equal(dx, (dz - sums[0] / D - saved.x_norm * sums[1] / D) / saved.std)
    assert not np.array_equal(dx, (dz - sums[0] / D - saved.x_norm * sums[1] / D) * (1 / saved.std))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_tensors_are_saved_in_16_bits_and_statistics_in_float32(dtype, problem):
    x, gamma, beta, _ = problem((2, 3, 129), dtype)
    for kernel in ("compact", "overcached"):
        _, saved = KERNELS[kernel].forward(x, gamma, beta, 1e-5)
        for name, value in saved._asdict().items():
            if isinstance(value, np.ndarray):
                per_row = name in ("mean", "var", "std", "rstd")
                assert value.dtype == (np.float32 if per_row else dtype_of(dtype)), (kernel, name)

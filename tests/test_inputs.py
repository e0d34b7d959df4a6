"""Test data is seeded, has the moments it is asked for, and is already rounded."""

import numpy as np
import pytest

from layernorm_backward import inputs
from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of


def test_a_cell_draws_the_same_numbers_whatever_was_drawn_before():
    one, two = (inputs.generator(3, 1, 2).standard_normal(5) for _ in range(2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, inputs.generator(3, 2, 1).standard_normal(5))


@pytest.mark.parametrize("name", DTYPE_NAMES)
def test_rows_have_the_mean_and_std_asked_for(name):
    x = inputs.rows(inputs.generator(1), 200, 500, dtype_of(name), mean=3.0, std=0.5)
    assert (x.shape, x.dtype) == ((200, 500), dtype_of(name))
    assert np.mean(inputs.values(x)) == pytest.approx(3.0, abs=0.01)
    assert np.std(inputs.values(x)) == pytest.approx(0.5, rel=0.01)


@pytest.mark.parametrize("kappa", [1.0, 10.0, 1e7])
def test_mean_of_kappa_gives_that_condition_number(kappa):
    x = inputs.rows(inputs.generator(2), 1, 100_000, np.float64, mean=inputs.mean_of_kappa(kappa))
    assert np.hypot(1, x.mean() / x.std()) == pytest.approx(kappa, rel=0.01)


def test_kappa_below_one_is_refused():
    with pytest.raises(ValueError, match=r"kappa is 0.5; allowed: at least 1"):
        inputs.mean_of_kappa(0.5)


def test_the_ladder_is_five_rungs():
    assert inputs.ladder(1e14, np.float64).tolist() == [[1e14 + k for k in range(5)]]
    assert set(inputs.values(inputs.ladder(1e8, np.float32)).ravel()) == {1e8}


def test_upstream_kinds_differ_in_mean_and_correlation():
    rng = inputs.generator(4)
    x = inputs.rows(rng, 64, 1024, np.float32, mean=50.0)
    x_hat = (inputs.values(x) - 50.0).ravel()
    means, correlations = {}, {}
    for kind in ("normal", "shifted", "correlated"):
        dy = inputs.upstream(rng, kind, x)
        assert (dy.shape, dy.dtype) == (x.shape, x.dtype)
        means[kind] = float(np.mean(inputs.values(dy)))
        correlations[kind] = float(np.mean(inputs.values(dy).ravel() * x_hat))
    assert means == pytest.approx({"normal": 0, "shifted": 1, "correlated": 0}, abs=0.02)
    assert correlations == pytest.approx({"normal": 0, "shifted": 0, "correlated": 0.5**0.5}, abs=0.02)


def test_an_aligned_gradient_is_one_plus_x_hat_but_for_the_spread():
    x = inputs.rows(inputs.generator(5), 64, 1024, np.float64, mean=50.0, std=2.0)
    x_hat = (x - x.mean(axis=-1, keepdims=True)) / x.std(axis=-1, keepdims=True)
    rest = inputs.aligned(inputs.generator(6), x, 1e-3) - 1 - x_hat
    assert (rest.mean(), rest.std()) == pytest.approx((0.0, 1e-3), abs=2e-5)


def test_a_gradient_correlated_with_a_constant_row_is_finite():
    x = np.full((2, 8), 5.0)
    assert np.isfinite(inputs.upstream(inputs.generator(5), "correlated", x)).all()


def test_gamma_is_ones_or_random_about_one():
    rng = inputs.generator(6)
    assert set(inputs.gamma(rng, "uniform", 9, np.float32)) == {1.0}
    random = inputs.gamma(rng, "random", 20_000, np.float64)
    assert (random.mean(), random.std()) == pytest.approx((1.0, 0.5), abs=0.02)


def test_unknown_kinds_are_refused_with_the_kinds_allowed():
    rng = inputs.generator(7)
    with pytest.raises(ValueError, match="'ones'; allowed: normal, shifted, correlated"):
        inputs.upstream(rng, "ones", np.ones((1, 2)))
    with pytest.raises(ValueError, match="'ones'; allowed: uniform, random"):
        inputs.gamma(rng, "ones", 2, np.float64)

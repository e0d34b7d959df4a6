"""The oracle against Arb, whose results carry a certified radius, and against rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, fmpq

from layernorm_backward import oracle
from layernorm_backward.double_double import DoubleDouble

EPS = 1e-5
CERTIFIED = 1e-28  # allowed error of an element over the largest element of its row (dx: of rstd*g)


def certified(x, gamma, beta, dy, eps):
    """y, dx, dgamma, dbeta and rstd*g in Arb balls of 400 bits, straight from the definitions."""
    rows, hidden = x.shape
    x, dy = ([[arb(float(v)) for v in row] for row in array] for array in (x, dy))
    gamma, beta = ([arb(float(v)) for v in vector] for vector in (gamma, beta))
    zero = arb(0)
    y, dx, unprojected = [], [], []
    dgamma, dbeta = [zero] * hidden, [zero] * hidden
    for n in range(rows):
        mean = sum(x[n], zero) / hidden
        variance = sum(((v - mean) ** 2 for v in x[n]), zero) / hidden
        rstd = 1 / (variance + arb(eps)).sqrt()
        x_hat = [(v - mean) * rstd for v in x[n]]
        g = [a * b for a, b in zip(gamma, dy[n], strict=True)]
        c1 = sum(g, zero) / hidden
        c2 = sum((a * b for a, b in zip(g, x_hat, strict=True)), zero) / hidden
        y.append([a * b + c for a, b, c in zip(gamma, x_hat, beta, strict=True)])
        dx.append([rstd * (a - c1 - b * c2) for a, b in zip(g, x_hat, strict=True)])
        unprojected.append([rstd * a for a in g])
        dgamma = [total + a * b for total, a, b in zip(dgamma, dy[n], x_hat, strict=True)]
        dbeta = [total + a for total, a in zip(dbeta, dy[n], strict=True)]
    return y, dx, [dgamma], [dbeta], unprojected


def worst(computed: DoubleDouble, balls: list[list[arb]], sizes: list[list[arb]]) -> float:
    """The largest distance from a ball's farthest point, over the largest element of the row in `sizes`."""
    high, low = (np.atleast_2d(part) for part in computed)
    found = 0.0
    for n, row in enumerate(balls):
        size = max(float(abs(ball).upper()) for ball in sizes[n]) or 1.0
        for j, ball in enumerate(row):
            distance = abs(arb(float(high[n, j])) + arb(float(low[n, j])) - ball).upper()
            found = max(found, float(distance) / size)
    return found


@pytest.fixture(autouse=True)
def precision():
    before, ctx.prec = ctx.prec, 400
    yield
    ctx.prec = before


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e8, 1e14])
@pytest.mark.parametrize("hidden", [1, 2, 17, 130])
def test_all_results_agree_with_arb(hidden, offset):
    rng = np.random.default_rng([hidden, int(np.log10(offset + 1))])
    x, dy = offset + rng.standard_normal((3, hidden)), 1 + rng.standard_normal((3, hidden))
    gamma, beta = rng.standard_normal((2, hidden))
    found = oracle.results(x, gamma, beta, dy, EPS)
    y, dx, dgamma, dbeta, unprojected = certified(x, gamma, beta, dy, EPS)
    assert worst(found.y, y, y) <= CERTIFIED
    assert worst(found.dx, dx, unprojected) <= CERTIFIED
    assert worst(found.dgamma, dgamma, dgamma) <= CERTIFIED
    assert worst(found.dbeta, dbeta, dbeta) <= CERTIFIED


def test_a_nearly_projected_gradient_agrees_with_arb():
    rng = np.random.default_rng(5)
    x = 1e6 + rng.standard_normal((2, 64))
    dy = 1 + 1e-9 * rng.standard_normal((2, 64))  # g is almost along the ones: kappa_g about 1e9
    gamma, beta = np.ones(64), np.zeros(64)
    found = oracle.results(x, gamma, beta, dy, EPS)
    dx = certified(x, gamma, beta, dy, EPS)[1]
    assert worst(found.dx, dx, dx) <= 1e-20


@pytest.mark.parametrize("offset", [0.0, 1e8, 1e14])
def test_moments_agree_with_rational_arithmetic(offset):
    x = offset + np.random.default_rng(3).standard_normal((2, 101))
    found = oracle.moments(x)
    for n, row in enumerate(x.tolist()):
        exact = [fmpq(*value.as_integer_ratio()) for value in row]
        mean = sum(exact, fmpq(0)) / 101
        variance = sum(((value - mean) ** 2 for value in exact), fmpq(0)) / 101
        for computed, wanted in ((found.mean, mean), (found.variance, variance)):
            pair = [fmpq(*float(part[n]).as_integer_ratio()) for part in computed]
            assert abs(pair[0] + pair[1] - wanted) <= abs(wanted) / 2**98


@pytest.mark.parametrize("offset", [10.0**k for k in range(15)])
def test_the_ladder_has_variance_two_at_every_offset(offset):
    found = oracle.moments(offset + np.arange(5.0)[None, :]).variance
    assert Fraction(float(found.hi[0])) + Fraction(float(found.lo[0])) == pytest.approx(2, abs=1e-29)


def test_a_constant_row_has_variance_zero_and_x_hat_zero():
    x = np.full((1, 1000), 0.1)
    assert not np.any(oracle.moments(x).variance.hi)
    assert not np.any(oracle.normalize(x, EPS).x_hat.hi)


def test_forward_and_backward_are_parts_of_results(problem):
    x, gamma, beta, dy = problem((2, 3, 8))
    found = oracle.results(x, gamma, beta, dy, EPS)
    assert found.dx.hi.shape == (2, 3, 8)
    assert found.dgamma.hi.shape == found.dbeta.hi.shape == (8,)
    parts = (oracle.forward(x, gamma, beta, EPS), *oracle.backward(x, gamma, dy, EPS))
    for whole, part in zip(found, parts, strict=True):
        assert np.array_equal(whole.hi, part.hi)
        assert np.array_equal(whole.lo, part.lo)


def test_a_nan_stays_in_its_row(problem):
    x, gamma, beta, dy = problem((3, 8))
    clean = oracle.results(x, gamma, beta, dy, EPS)
    x[1, 2] = np.nan
    spoiled = oracle.results(x, gamma, beta, dy, EPS)
    assert np.isnan(spoiled.dx.hi[1]).all()
    assert np.array_equal(spoiled.dx.hi[[0, 2]], clean.dx.hi[[0, 2]])
    assert np.isnan(spoiled.dgamma.hi).all()


def test_no_rows_give_zero_parameter_gradients():
    found = oracle.results(np.empty((0, 4)), np.ones(4), np.zeros(4), np.empty((0, 4)), EPS)
    assert found.dx.hi.shape == (0, 4)
    assert found.dgamma.hi.tolist() == found.dbeta.hi.tolist() == [0.0] * 4

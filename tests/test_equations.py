"""One test per numbered equation of the paper; each establishes it by another way than computing it again.

Exact statements are made in rational arithmetic (a float64 is a rational number). Derivatives are taken by
complex step: Im L(x + ih)/h with h = 1e-200, which has no difference to cancel.
"""

import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from layernorm_backward import inputs, oracle
from layernorm_backward.kernels import KERNELS
from layernorm_backward.kernels.reference import backward_equations, forward_equations
from layernorm_backward.theory import mean_bounds
from layernorm_backward.theory.bounds import Rounding, bounds
from layernorm_backward.theory.magnitudes import rows_of

STEP = 1e-200
EPS = 1e-3
N, D = 3, 7


@pytest.fixture
def data(problem):
    return problem((N, D))


@pytest.fixture
def ahead(data):
    return forward_equations(data.x, data.gamma, data.beta, EPS)


@pytest.fixture
def back(data, ahead):
    return backward_equations(data.dy, ahead.x_hat, ahead.rstd, data.gamma)


def fractions(array):
    return [Fraction(float(value)) for value in np.ravel(array)]


def exact_mean(values):
    return sum(values, Fraction(0)) / len(values)


def close(found, wanted, u=16):
    """Equal to `u` roundings of the largest element."""
    return np.abs(found - wanted).max() <= u * 2.0**-53 * np.abs(wanted).max()


def derivative(function, at):
    """d function / d at[k] for every k, by complex step: shape at.shape + the shape of the result."""
    columns = []
    for index in np.ndindex(at.shape):
        point = at.astype(complex)
        point[index] += 1j * STEP
        columns.append(np.imag(function(point)) / STEP)
    return np.reshape(columns, at.shape + np.shape(columns[0]))


def loss(data, **changed):
    """L = sum(dy * y), whose gradients the backward pass is to give."""
    given = {"x": data.x, "gamma": data.gamma, "beta": data.beta, "eps": EPS} | changed
    return (data.dy * forward_equations(**given).y).sum()


def test_equation_1_mean(data, ahead):
    for row, mean in zip(data.x, ahead.mean[:, 0], strict=True):
        deviations = [value - Fraction(mean) for value in fractions(row)]
        assert abs(sum(deviations)) <= 2 * D * Fraction(2) ** -53 * sum(map(abs, fractions(row)))


def test_equation_2_variance(data, ahead):
    for row, var in zip(data.x, ahead.var[:, 0], strict=True):
        values = fractions(row)
        by_pairs = sum((one - other) ** 2 for one in values for other in values) / (2 * D**2)
        assert abs(Fraction(var) / by_pairs - 1) <= 16 * Fraction(2) ** -53


def test_equation_3_rstd(ahead):
    for var, rstd in zip(fractions(ahead.var), fractions(ahead.rstd), strict=True):
        assert abs(rstd**2 * (var + Fraction(EPS)) - 1) <= 8 * Fraction(2) ** -53


def test_equation_4_x_hat(data, ahead):
    """Differences within a row are those of x times rstd, and the row is centred: one solution is left."""
    within = data.x[:, :, None] - data.x[:, None, :]
    assert close(ahead.x_hat[:, :, None] - ahead.x_hat[:, None, :], within * ahead.rstd[:, :, None])
    assert np.abs(ahead.x_hat.sum(axis=-1)).max() <= D * 2.0**-52
    assert close(np.square(ahead.x_hat).mean(axis=-1, keepdims=True), ahead.var / (ahead.var + EPS))


def test_equation_5_y(data, ahead):
    """y is affine: with unit vectors as gamma it returns columns of x_hat, and with gamma = 0 it is beta."""
    for k, unit in enumerate(np.eye(D)):
        y = forward_equations(data.x, unit, np.zeros(D), EPS).y
        assert np.array_equal(y[:, k], ahead.x_hat[:, k])
        assert not np.delete(y, k, axis=1).any()
    y = forward_equations(data.x, np.zeros(D), data.beta, EPS).y
    assert np.array_equal(y, np.broadcast_to(data.beta, y.shape))
    assert close(ahead.y - y, ahead.x_hat * data.gamma)


def after_x_hat(data, x_hat):
    """L as a function of x_hat alone, the point at which g, c1 and c2 are defined."""
    return (data.dy * (data.gamma * x_hat + data.beta)).sum(axis=-1)


def test_equation_6_g(data, ahead, back):
    g = derivative(lambda x_hat: after_x_hat(data, x_hat).sum(), ahead.x_hat)
    assert close(back.g, g, u=2)


def test_equation_7_c1(data, ahead, back):
    """D*c1 is what L gains when a whole row of x_hat is shifted: the part that centring takes away."""
    gain = np.imag(after_x_hat(data, ahead.x_hat + 1j * STEP)) / STEP
    assert close(D * back.c1[:, 0], gain)


def test_equation_8_c2(data, ahead, back):
    """D*c2 is what L gains when a row of x_hat is stretched: the part that scaling takes away."""
    gain = np.imag(after_x_hat(data, ahead.x_hat * (1 + 1j * STEP))) / STEP
    assert close(D * back.c2[:, 0], gain)


def test_equation_9_dx(data, back):
    assert close(back.dx, derivative(lambda x: loss(data, x=x), data.x), u=64)


def test_equation_10_dgamma(data, back):
    assert close(back.dgamma, derivative(lambda gamma: loss(data, gamma=gamma), data.gamma))


def test_equation_11_dbeta(data, back):
    assert close(back.dbeta, derivative(lambda beta: loss(data, beta=beta), data.beta))


def jacobians(x_hat, rstd):
    """(12): rstd * (delta_ij - 1/D - x_hat_i x_hat_j/D), one (D, D) matrix a row."""
    outer = x_hat[:, :, None] * x_hat[:, None, :]
    return rstd[:, :, None] * (np.eye(D) - 1 / D - outer / D)


def test_equation_12_dense_jacobian(data, ahead, back):
    """Row by row: the derivative of x_hat; contracted with g it gives dx; shifts are in its null space."""
    ones, zeros = np.ones(D), np.zeros(D)
    dense = jacobians(ahead.x_hat, ahead.rstd)
    for row, jacobian, g, dx in zip(data.x, dense, back.g, back.dx, strict=True):
        stepped = derivative(lambda x: forward_equations(x, ones, zeros, EPS).x_hat, row)
        assert close(jacobian, stepped, u=64)
        assert close(jacobian @ g, dx, u=64)
        assert np.abs(jacobian @ ones).max() <= 16 * 2.0**-53 * np.abs(jacobian).max()
    stretched = np.einsum("nij,nj->ni", dense, ahead.x_hat)
    shrink = ahead.rstd * EPS / (ahead.var + EPS)
    assert np.abs(stretched - shrink * ahead.x_hat).max() <= 64 * 2.0**-53 * np.abs(dense).max()


def test_equation_13_recentring(data):
    """However wrong the mean m, z = x - m less its own mean is exactly x less the exact mean."""
    for row in data.x:
        values = fractions(row)
        for wrong in (Fraction(0), Fraction(355, 113), exact_mean(values) + Fraction(1, 10**6)):
            z = [value - wrong for value in values]
            recentred = [value - exact_mean(z) for value in z]
            assert recentred == [value - exact_mean(values) for value in values]


def test_equation_14_algebraic_recentring(data, back):
    """The sums of the re-centred row follow from those of z = x - m: exactly, for any m."""
    for row, g_row in zip(data.x, back.g, strict=True):
        values, g = fractions(row), fractions(g_row)
        centred = [value - exact_mean(values) for value in values]
        for wrong in (Fraction(0), exact_mean(values) + Fraction(1, 10**6)):
            z = [value - wrong for value in values]
            delta = exact_mean(z)
            sum_gz = sum(one * other for one, other in zip(g, z, strict=True))
            assert exact_mean([one**2 for one in z]) - delta**2 == exact_mean([one**2 for one in centred])
            right = sum(one * other for one, other in zip(g, centred, strict=True))
            assert sum_gz - delta * sum(g) == right


def test_equation_15_kappa():
    """kappa is the condition number of the standard deviation: the most that a change of x can do to it."""
    rng = np.random.default_rng(15)
    for kappa in (1.0, 3.0, 100.0):
        x = rng.standard_normal(64)
        x = (x - x.mean()) / x.std() + inputs.mean_of_kappa(kappa)
        defined = np.sqrt(1 + x.mean() ** 2 / x.var())
        assert defined == pytest.approx(kappa, rel=1e-12)
        assert defined == pytest.approx(np.linalg.norm(x) / (np.sqrt(64) * x.std()), rel=1e-12)

        def gain(direction, x=x):
            moved = x + direction * 1e-7 * np.linalg.norm(x) / np.linalg.norm(direction)
            return abs(moved.std() / x.std() - 1) / 1e-7

        assert gain(x - x.mean()) == pytest.approx(kappa, rel=1e-5)
        assert max(gain(rng.standard_normal(64)) for _ in range(50)) < kappa


def perturbed(g, x, mean, rstd, eta, rho):
    """Exact dx and x_hat (lists) of a row with its mean off by eta/rstd and its rstd by a factor 1 + rho."""
    wrong_rstd = rstd * (1 + rho)
    x_hat = [(value - mean - eta / rstd) * wrong_rstd for value in x]
    c1, c2 = exact_mean(g), exact_mean([one * other for one, other in zip(g, x_hat, strict=True)])
    return [wrong_rstd * (one - c1 - other * c2) for one, other in zip(g, x_hat, strict=True)], x_hat


TINY = Fraction(1, 10**20)


@pytest.mark.parametrize(("eta", "rho"), [(1, 0), (0, 1), (3, -2)])
def test_equation_16_first_order_error_of_dx(data, ahead, back, eta, rho):
    """Exact perturbed dx less exact dx, over a perturbation of 1e-20: what is left is of second order."""
    for row, rstd, g in zip(data.x, fractions(ahead.rstd), map(fractions, back.g), strict=True):
        values = fractions(row)
        mean = exact_mean(values)
        dx, x_hat = perturbed(g, values, mean, rstd, 0, 0)
        moved, _ = perturbed(g, values, mean, rstd, eta * TINY, rho * TINY)
        c1, c2 = exact_mean(g), exact_mean([one * other for one, other in zip(g, x_hat, strict=True)])
        for before, after, one in zip(dx, moved, x_hat, strict=True):
            predicted = rho * before + rstd * (-2 * rho * c2 * one + eta * (c2 + c1 * one))
            assert abs((after - before) / TINY - predicted) <= 10**4 * TINY


@pytest.mark.parametrize(("eta", "rho"), [(1, 0), (0, 1), (3, -2)])
def test_equation_17_first_order_error_of_dgamma(data, ahead, eta, rho):
    """The same for dgamma, with another eta and rho in every row, and the sum over rows taken exactly."""
    before, after, predicted = ([Fraction(0)] * D for _ in range(3))
    for n, (row, rstd, dys) in enumerate(zip(data.x, fractions(ahead.rstd), data.dy, strict=True)):
        values, dy, eta_n, rho_n = fractions(row), fractions(dys), eta * (n + 1), rho * (2 - n)
        _, x_hat = perturbed(dy, values, exact_mean(values), rstd, 0, 0)
        _, moved = perturbed(dy, values, exact_mean(values), rstd, eta_n * TINY, rho_n * TINY)
        for k in range(D):
            before[k] += dy[k] * x_hat[k]
            after[k] += dy[k] * moved[k]
            predicted[k] += dy[k] * (rho_n * x_hat[k] - eta_n)
    for k in range(D):
        assert abs((after[k] - before[k]) / TINY - predicted[k]) <= 10**4 * TINY


@pytest.mark.parametrize("kernel", ["compact", "overcached", "recentred", "numba_fused"])
@pytest.mark.parametrize("kappa", [1, 1e2, 1e4, 1e5])
def test_equation_18_bound_of_the_error_of_dx(kernel, kappa):
    """No row of 64 exceeds the bound, in float32 at D = 256; the worst is within a factor 200 of it."""
    rng = inputs.generator(18)
    x = inputs.rows(rng, 64, 256, np.float32, mean=inputs.mean_of_kappa(kappa))
    gamma, beta = inputs.gamma(rng, "random", 256, np.float32), inputs.beta(rng, 256, np.float32)
    dy = inputs.upstream(rng, "shifted", x)
    wide = [inputs.values(array) for array in (x, gamma, beta, dy)]
    exact = oracle.results(*wide, EPS).dx.hi
    _, saved = KERNELS[kernel].forward(x, gamma, beta, EPS)
    error = np.linalg.norm(KERNELS[kernel].backward(dy, saved)[0] - exact, axis=-1)
    relative = error / np.linalg.norm(exact, axis=-1)
    u, moments = 2.0**-24, oracle.moments(wide[0])
    way = {"recentred": mean_bounds.recentred, "numba_fused": mean_bounds.algebraic}
    statistics = way.get(kernel, mean_bounds.two_pass)(rows_of(moments), 32, u)
    bound = bounds(moments, *wide[1:], EPS, statistics, Rounding(u, u, depth=32, row_depth=64)).dx
    assert (relative <= bound).all()
    assert relative.max() > bound.max() / 200


def test_equation_19_condition_of_dx_in_g(ahead, back):
    """A relative change of g moves dx by at most kappa_g times as much; across 1 and x_hat, by just that."""
    ones, rng = np.ones(D), np.random.default_rng(19)
    for x_hat, rstd, g, dx in zip(ahead.x_hat, ahead.rstd, back.g, back.dx, strict=True):
        kappa_g = rstd.item() * np.linalg.norm(g) / np.linalg.norm(dx)
        basis = np.linalg.qr(np.column_stack([ones, x_hat]))[0]
        for change in rng.normal(size=(20, D)):
            kept = change - basis @ (basis.T @ change)
            assert relative_move(change, g, dx, x_hat, rstd) <= kappa_g * (1 + 1e-9)
            assert relative_move(kept, g, dx, x_hat, rstd) == pytest.approx(kappa_g, rel=1e-9)


def relative_move(change, g, dx, x_hat, rstd):
    """The relative change of dx, which is linear in g, for a relative change of g of 1."""
    scaled = change * np.linalg.norm(g) / np.linalg.norm(change)
    moved = backward_equations(scaled[None], x_hat[None], rstd.reshape(1, 1), np.ones(D)).dx
    return np.linalg.norm(moved) / np.linalg.norm(dx)


def test_every_numbered_equation_of_the_paper_has_its_test():
    root = Path(__file__).parents[1]
    labels = re.findall(r"\{#eq:(\w+)\}", (root / "paper" / "paper.md.j2").read_text(encoding="utf-8"))
    by_number = re.findall(r"^def test_equation_(\d+)_", Path(__file__).read_text("utf-8"), re.MULTILINE)
    appendix = [Path(__file__).with_name(f"test_equations_{part}.py") for part in ("appendix", "ways")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in appendix)
    by_label = re.findall(r"^def test_equation_([a-z]+)_", text, re.MULTILINE)
    numbered = [label for label in labels if label not in by_label]
    assert sorted({int(number) for number in by_number}) == list(range(1, len(numbered) + 1))
    assert set(by_label) <= set(labels[len(numbered) :])

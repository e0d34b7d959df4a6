"""One test per numbered equation of the paper's appendix on the mean path, named by the equation's label.

Those of the bounds of each way to mean and variance are in `test_equations_ways`.
"""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from layernorm_backward import inputs, oracle, passes, problem
from layernorm_backward.sums import tree_depth, tree_sum
from layernorm_backward.theory import bounds, magnitudes, mean_bounds, result_bounds
from layernorm_backward.theory.exact_rows import exact_rows
from layernorm_backward.theory.result_bounds import sizes
from rationals import SLACK, Row, U, mean, near, rms, rounded_tree, roundings, rows, square

EPS = 1e-5


ERRORS = [(Fraction(1, 7), Fraction(0)), (Fraction(0), Fraction(1, 9)), (Fraction(-2, 5), Fraction(1, 3))]


def moved(row, eta, rho):
    """x_hat and r of a row whose mean is off by eta/r and whose r is off by a factor 1 + rho."""
    return row.x_hat(row.mean + eta / row.r, row.r * (1 + rho)), row.r * (1 + rho)


def test_equation_model_of_arithmetic():
    """Each operation of float32 is off by at most u of its result; n factors by at most n*u/(1 - n*u)."""
    u, rng = Fraction(1, 2**24), np.random.default_rng(20)
    operations = (lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b)
    for a, b in rng.standard_normal((200, 2)).astype(np.float32):
        one, other = Fraction(float(a)), Fraction(float(b))
        for operation in operations:
            exact = operation(one, other)
            assert abs(Fraction(float(operation(a, b))) - exact) <= u * abs(exact)
        root = Fraction(float(np.sqrt(abs(a))))
        assert (1 - u) ** 2 * abs(one) <= root**2 <= (1 + u) ** 2 * abs(one)
    for n, power in product((1, 5, 40), (1, -1)):
        for sign in (1, -1):
            theta = (1 + sign * u) ** (power * n) - 1
            assert n * u * (1 - SLACK) - n**2 * u**2 <= abs(theta) <= n * u / (1 - n * u)


class Depth:
    """Counts the additions that a term has been through."""

    def __init__(self, depth=0):
        self.depth = depth

    def __add__(self, other):
        return Depth(max(self.depth, other.depth) + 1)


def test_equation_treesum_depth_and_error():
    for count in range(1, 70):
        depths = np.array([[Depth() for _ in range(count)]], dtype=object)
        assert tree_sum(depths)[0].depth == tree_depth(count) == int(np.ceil(np.log2(count)))
    terms = [Fraction(n, 7) for n in range(1, 65)]
    assert near(roundings(rounded_tree(terms, U), sum(terms), sum(terms)), 6)
    x = np.random.default_rng(21).standard_normal(1000).astype(np.float32)
    exact = [Fraction(float(value)) for value in x]
    error = abs(Fraction(float(tree_sum(x))) - sum(exact))
    assert error <= 10 * Fraction(1, 2**24) * sum(map(abs, exact))


def test_equation_drift_of_the_mean():
    """Attained where all roundings agree: (s + 1)*u of mean |x|, which is sigma*kappa for a far row."""
    x = [10**4 + Fraction(n % 5 - 2) for n in range(64)]
    found = rounded_tree(x, U) / 64 * (1 + U)
    sigma = float(square([value - mean(x) for value in x])) ** 0.5
    kappa = np.hypot(1, float(mean(x)) / sigma)
    assert near(roundings(found, mean(x), mean(x)), 7)
    assert float(found - mean(x)) / sigma == pytest.approx(7 * float(U) * kappa, rel=1e-6)
    row = magnitudes.Rows(np.array([kappa]), np.array([0.0]), np.array([sigma]), 64)
    assert mean_bounds.summed(row, 6, float(U))[0] == pytest.approx(7 * float(U) * kappa)


@pytest.mark.parametrize(("eta", "rho"), ERRORS)
def test_equation_xhatmoved_by_both_errors(eta, rho):
    for row in rows():
        x_hat, _ = moved(row, eta, rho)
        assert x_hat == [(1 + rho) * (one - eta) for one in row.x_hat()]


@pytest.mark.parametrize(("eta", "rho"), ERRORS)
def test_equation_cmoved_by_both_errors(eta, rho):
    for row in rows():
        x_hat, _ = moved(row, eta, rho)
        assert row.c2(x_hat) == (1 + rho) * (row.c2(row.x_hat()) - eta * mean(row.g))


@pytest.mark.parametrize(("eta", "rho"), ERRORS)
def test_equation_dxmoved_exactly(eta, rho):
    """No order is left out: equal for errors of a third."""
    for row in rows():
        x_hat, c1, q = row.x_hat(), mean(row.g), (1 + rho) ** 2
        c2, before = row.c2(x_hat), row.dx(x_hat, row.r)
        for after, dx, one in zip(row.dx(*moved(row, eta, rho)), before, x_hat, strict=True):
            bracket = (1 - q) * c2 * one + q * eta * (c2 - eta * c1 + c1 * one)
            assert after - dx == rho * dx + row.r * (1 + rho) * bracket


@pytest.mark.parametrize(("eta", "rho"), ERRORS)
def test_equation_gammamoved_exactly(eta, rho):
    """y with gamma = 3, and dgamma with another eta and rho in every row."""
    before, after, said = ([Fraction(0)] * 8 for _ in range(3))
    for n, row in enumerate(rows(), start=1):
        x_hat, (wrong, _) = row.x_hat(), moved(row, eta / n, rho / n)
        for k, (one, other, dy) in enumerate(zip(x_hat, wrong, row.g, strict=True)):
            gain = rho / n * one - (1 + rho / n) * eta / n
            assert 3 * other - 3 * one == 3 * gain
            before[k], after[k], said[k] = before[k] + dy * one, after[k] + dy * other, said[k] + dy * gain
    assert [one - other for one, other in zip(after, before, strict=True)] == said


def test_equation_bessel_parts_of_g():
    for row in rows():
        x_hat, c1 = row.x_hat(), mean(row.g)
        c2 = row.c2(x_hat)
        assert square([c2 + c1 * one for one in x_hat]) == c2**2 + row.share * c1**2
        assert 0 < c1**2 + c2**2 < square(row.g)
    sides = Row([Fraction(n % 2 * 2 - 1) for n in range(8)], [], Fraction(1))  # x_hat = x: share 1
    sides = sides._replace(g=[2 + 3 * one for one in sides.x])
    assert mean(sides.g) ** 2 + sides.c2(sides.x) ** 2 == square(sides.g)


def test_equation_quadratic_in_the_error_of_the_mean():
    for row, off in product(rows(), (Fraction(1, 3), Fraction(-5), Fraction(0))):
        about = square([value - row.mean - off for value in row.x])
        assert about == row.variance + off**2


@pytest.mark.parametrize("share", [Fraction(1, 1000), Fraction(1, 2), Fraction(1)])
@pytest.mark.parametrize("off", [Fraction(0), Fraction(1, 50), Fraction(-1, 50)])
def test_equation_rhobound_of_rstd(share, off):
    """Every sign of the four roundings, squared so that no root is taken; attained where eps is all."""
    eps, largest = 1 - share, Fraction(0)
    for e, a, b, c in product((U, -U), repeat=4):
        total = (share * (1 + off) + eps * (1 + e)) * (1 + a)
        squared = ((1 + c) / (1 + b)) ** 2 / total * (1 + share * off)  # (1 + theta)^2, for r = 1
        largest = max(largest, abs(squared - 1) / 2)
    assert largest <= 3 * U * (1 + Fraction(1, 20))  # eps's rounding counts 1/(1 + share*off)
    if share < Fraction(1, 100):
        assert largest >= Fraction(299, 100) * U
    assert abs(1 / float(1 + share * off) ** 0.5 - 1) <= float(share * abs(off)) / 2 * 1.02


@pytest.mark.parametrize("k", [2, 3])
def test_equation_local_roundings_are_counted(k):
    """Sums of positive terms attain their count; outside, no signs exceed 4 rms(g) + (k + 1)|c2|."""
    rng = np.random.default_rng(30)
    for row in rows(hidden=16):
        g, x_hat = [abs(value) + 1 for value in row.g], [abs(one) + 1 for one in row.x_hat()]
        c1 = rounded_tree([one * (1 + U) for one in g], U) / 16 * (1 + U)
        terms = [a * (1 + U) * b * (1 + U) ** k * (1 + U) for a, b in zip(g, x_hat, strict=True)]
        c2 = rounded_tree(terms, U) / 16 * (1 + U)
        exact = mean([a * b for a, b in zip(g, x_hat, strict=True)])
        assert near(roundings(c1, mean(g), mean(g)), 4 + 2)
        assert near(roundings(c2, exact, exact), 4 + k + 3)
        x_hat, c1 = row.x_hat(), mean(row.g)
        c2 = row.c2(x_hat)
        for _ in range(20):
            signs = [[Fraction(int(n)) for n in rng.choice((-1, 1), 5 + k)] for _ in row.g]
            errors = [
                ((g * (1 + U * a) - c1) * (1 + U * b) - factor(one, sign) * c2) * (1 + U * c) * (1 + U * d)
                - (g - c1 - one * c2)
                for g, one, (a, b, c, d, *sign) in zip(row.g, x_hat, signs, strict=True)
            ]
            assert rms(errors) <= float(U) * (4 * rms(row.g) + (k + 1) * abs(float(c2))) * 1.000001


def factor(value, signs):
    for sign in signs:
        value *= 1 + U * sign
    return value


def drawn(kappa, hidden=256, count=8, upstream="shifted"):
    rng = inputs.generator(31)
    x = inputs.rows(rng, count, hidden, np.float32, mean=inputs.mean_of_kappa(kappa))
    return problem.draw(rng, x, upstream, "random")


@pytest.mark.parametrize("way", ["two_pass", "welford", "float64_mean"])
def test_equation_fullbound_is_the_bound_of_the_tables_and_of_every_perturbation(way):
    case, u = drawn(100.0), 2.0**-24
    x, gamma, _, dy = case.values()
    exact = oracle.moments(x)
    facts = magnitudes.rows_of(exact)
    statistics = mean_bounds.STATISTICS[way](facts, 8, u)
    variance, g = exact.variance.hi, gamma * dy
    share, r = variance / (variance + EPS), 1 / np.sqrt(variance + EPS)
    x_hat = exact.centred.hi * r[:, None]
    eta, rho = np.sqrt(share) * statistics.drift, (1 + 3 * u) / np.sqrt(1 - share * statistics.variance) - 1
    c1, c2 = g.mean(-1), (g * x_hat).mean(-1)
    dx = r[:, None] * (g - c1[:, None] - x_hat * c2[:, None])
    size, wide, q = norm(dx), norm(g), (1 + rho) ** 2
    root = np.hypot(abs(c2) + abs(eta * c1), c1)
    first = rho * size + r * (1 + rho) * ((q - 1) * abs(c2) + q * eta * root)
    means = np.abs(g).mean(-1), np.abs(g * x_hat).mean(-1)
    local = r * u * ((8 + 2) * means[0] + (8 + 2 + 3) * means[1] + 4 * wide + (2 + 2) * abs(c2))
    assert bounds.for_algorithm(way, case, exact, EPS, np.float32).dx == pytest.approx((first + local) / size)
    for one, other in product((1, -1), repeat=2):
        off = (x_hat - one * eta[:, None]) * (1 + other * rho[:, None])
        along = (g * off).mean(-1)[:, None]
        wrong = (r * (1 + other * rho))[:, None] * (g - c1[:, None] - off * along)
        assert (norm(wrong - dx) <= first).all()
        assert (norm(wrong - dx) > first / 4).all()


@pytest.mark.parametrize(("way", "k"), [("two_pass", 2), ("recentred", 3)])
@pytest.mark.parametrize("v", [0.0, 2.0**-8])
def test_the_bounds_of_the_other_results_are_those_of_the_text(way, k, v):
    """v: the roundoff of a narrower result, and of a saved x_hat: twice in dx, once in dgamma."""
    case, u = drawn(1e4), 2.0**-24
    x, gamma, beta, dy = case.values()
    moments = oracle.moments(x)
    exact = exact_rows(moments, gamma, beta, dy, EPS)
    statistics, rounding = bounds.error_model(way, x.shape, moments, np.float32, np.float32)
    kept = replace(rounding, result_u=v, rounds_x_hat=v > 0)
    found, plain = (result_bounds.within(exact, sizes(exact), statistics, it) for it in (kept, rounding))
    eta = np.sqrt(exact.share) * statistics.drift[:, None]
    rho = (1 + 3 * u) / np.sqrt(1 - exact.share * statistics.variance[:, None]) - 1
    moved = (1 + rho) * eta + u * np.sqrt(exact.share) * statistics.stray[:, None]
    y = gamma * exact.x_hat + beta
    error = (rho[:, 0] + (k + 1) * u) * norm(gamma * exact.x_hat) + moved[:, 0] * norm(gamma)
    assert found.y == pytest.approx((error + u * norm(y)) / norm(y) + v)
    stored = exact.r[:, 0] * (np.abs(exact.c2[:, 0]) + np.abs(exact.g * exact.x_hat).mean(-1))
    assert found.dx == pytest.approx(plain.dx + v * (1 + stored / norm(exact.dx)))
    still = result_bounds.within(exact, sizes(exact), statistics._replace(stray=np.zeros(8)), rounding)
    seen = u * (exact.r * np.sqrt(exact.share))[:, 0] * statistics.stray
    seen = seen * (np.abs(exact.g).mean(-1) + np.abs(exact.c2[:, 0]))
    assert plain.dx - still.dx == pytest.approx(seen / norm(exact.dx), abs=1e-16)
    each = (rho + (3 + k + 1) * u + v) * np.abs(dy * exact.x_hat) + moved * np.abs(dy)
    assert found.dgamma == pytest.approx(norm(each.sum(0)) / norm((dy * exact.x_hat).sum(0)) + v)
    assert found.dbeta == pytest.approx(3 * u * norm(np.abs(dy).sum(0)) / norm(dy.sum(0)) + v)


def norm(terms):
    return np.sqrt(np.mean(terms * terms, axis=-1))


def test_equation_recentreddrift_holds_no_kappa():
    """Attained by a row far from its m, all roundings alike; no run in float32 exceeds it at any kappa."""
    x = [Fraction(n % 3) for n in range(64)]
    sigma, off = float(square([value - mean(x) for value in x])) ** 0.5, Fraction(1000)
    z = [(value - mean(x) + off) * (1 + U) for value in x]
    found = rounded_tree(z, U) / 64 * (1 + U)
    t = float(off) / sigma
    assert float(found - off) / sigma == pytest.approx(8 * float(U) * np.hypot(1, t), rel=1e-5)
    drift = []
    for kappa in (1.0, 1e2, 1e4, 1e6):
        case, u = drawn(kappa), 2.0**-24
        exact = oracle.moments(inputs.values(case.x))
        done = passes.run("recentred", case, EPS, np.float32)
        left = (exact.mean - done.mean.astype(float)) - done.shift.astype(float)
        t = 9 * u * magnitudes.rows_of(exact).kappa
        drift.append(np.abs(left.hi) / np.sqrt(exact.variance.hi))
        assert (drift[-1] <= 10 * u * np.hypot(1, t)).all()
    assert np.median(drift[-1]) < 4 * np.median(drift[0])


def test_equation_algebraicvariance_counts_every_rounding():
    """All roundings against the variance: s + 5 of the size of mean(z^2), and what delta is off by."""
    s, off, t = 6, 5 * U, Fraction(3, 2)
    x = [Fraction(n % 2 * 2 - 1) for n in range(64)]  # variance 1
    z = [value + t for value in x]
    squares = rounded_tree([(value * (1 + U)) ** 2 * (1 + U) for value in z], U) / 64 * (1 + U)
    found = (squares - (t - off) ** 2 * (1 - U)) * (1 + U)
    assert near((found - 1) / U, (s + 4) * (1 + t**2) + t**2 + 1 + 2 * t * off / U)
    row = magnitudes.Rows(np.array([1e3]), np.array([0.0]), np.array([1.0]), 64)
    statistics = mean_bounds.recentred_sums(row, s, float(U), np.array([float(t)]))
    d = (s + 2) * float(U) * np.hypot(1, float(t))
    assert statistics.drift[0] == pytest.approx(d, rel=1e-12)
    said = (s + 6) * float(U) * (1 + float(t) ** 2) + 2 * float(t) * d + d**2
    assert statistics.variance[0] == pytest.approx(said, rel=1e-12)
    assert float(found - 1) < said


def test_the_mean_of_numbers_of_a_dtype_is_within_a_deviation_of_one_of_them():
    """So a row is at most that far from a shift that is rounded to the dtype; nearly so for two numbers."""
    rng = np.random.default_rng(34)
    for count in (2, 5, 64):
        for _ in range(50):
            x = (2048 + rng.integers(0, 3, count) * 2).astype(np.float16)  # neighbours: 2 apart
            exact = [Fraction(float(value)) for value in x]
            off = Fraction(2 * round(mean(exact) / 2)) - mean(exact)
            assert off**2 <= square([value - mean(exact) for value in exact])


def test_equation_algebraiclocal_is_what_the_sums_round_of_the_offset():
    """c2 of a row far from its mean, roundings against it, and x_hat; the program takes 2(s + 3) of both."""
    s, t = 4, Fraction(10**7)
    for row in rows(hidden=16):
        g, centred = [abs(value) + 1 for value in row.g], [value - row.mean for value in row.x]
        z = [value + t for value in centred]
        products = [a * (1 + U) * b * (1 + U) * (1 + U) for a, b in zip(g, z, strict=True)]
        taken = t * rounded_tree([a * (1 - U) for a in g], -U) * (1 - U)
        wrong = (rounded_tree(products, U) - taken) / 16
        exact = mean([a * b for a, b in zip(g, centred, strict=True)])
        assert roundings(wrong, exact, t * mean(g)) == pytest.approx(2 * s + 5, rel=1e-5)
        x_hat = [(value * (1 + U) - t * (1 - U)) * (1 + U) for value in z]
        worst = max(abs(one - other) for one, other in zip(x_hat, centred, strict=True))
        assert worst / (U * t) == pytest.approx(2, rel=1e-5)
    facts = magnitudes.Rows(np.array([1.0, 1e3]), np.zeros(2), np.ones(2), 64)
    found, u = mean_bounds.algebraic(facts, s, float(U)), float(U)
    d = (s + 2) * u * np.hypot(1, 1.01)
    assert found.drift == pytest.approx(d, rel=1e-12) and (found.stray_forward == 2.02).all()
    assert found.variance == pytest.approx((s + 6) * u * (1 + 1.01**2) + 2 * 1.01 * d + d**2, rel=1e-12)
    assert found.stray == pytest.approx(2 * (s + 3) * (u * facts.mu + d), rel=1e-12)


def test_equation_onenumber_is_all_that_a_mean_in_one_number_can_hold():
    u = Fraction(1, 2**24)
    for value in np.random.default_rng(33).uniform(1, 1000, 300):
        assert abs(Fraction(float(np.float32(value))) - Fraction(value)) <= u * Fraction(value)
    middle = 1 + u
    assert abs(Fraction(float(np.float32(float(middle)))) - middle) == u * middle / (1 + u)
    case = drawn(1000.0)
    exact = oracle.moments(inputs.values(case.x))
    for way in ("float64_mean", "two_pass_corrected", "shifted"):
        done = passes.run(way, case, EPS, np.float32)
        left = np.abs((exact.mean - done.mean.astype(float)).hi) / np.sqrt(exact.variance.hi)
        limit = 2.0**-24 * np.sqrt(magnitudes.rows_of(exact).kappa ** 2 - 1)
        assert (left <= limit * 1.1).all() and np.median(left) > limit.min() / 10


def first_order_bound(row, eta, rho, s, k):
    """(18) with the counts of the appendix, over r: the bound of rms(delta dx), less rho*rms(dx)."""
    x_hat, c1 = row.x_hat(), abs(float(mean(row.g)))
    c2, mean_g = abs(float(row.c2(x_hat))), float(mean([abs(g) for g in row.g]))
    mean_gx = float(mean([abs(g * one) for g, one in zip(row.g, x_hat, strict=True)]))
    local = (s + 2) * mean_g + (s + k + 3) * mean_gx + 4 * rms(row.g) + (k + 2) * c2
    return 2 * rho * c2 + eta * np.hypot(c1, c2) + float(U) * local


@pytest.mark.parametrize(("s", "k"), [(3, 2), (10, 3)])
def test_equation_kappagbound_gathers_the_local_roundings(s, k):
    """Never exceeded, and equal for a row of two values with g along x_hat."""
    eta, rho = 3e-9, 2e-9
    said = eta + 2 * rho + (2 * s + 2 * k + 11) * float(U)
    for row in rows(count=20):
        kappa_g = float(row.r) * rms(row.g) / rms(row.dx(row.x_hat(), row.r))
        relative = float(row.r) * first_order_bound(row, eta, rho, s, k) / rms(row.dx(row.x_hat(), row.r))
        assert relative <= kappa_g * said
    x = [Fraction(n % 2 * 2 - 1) for n in range(8)]
    extreme = Row(x, [3 * one for one in x], Fraction(1))
    assert first_order_bound(extreme, eta, rho, s, k) / 3 == pytest.approx(said, rel=1e-12)

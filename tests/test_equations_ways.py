"""The bounds of each way to mean and variance: a test per equation of the appendix, and of their table."""

import re
from fractions import Fraction

import numpy as np
import pytest

from layernorm_backward import passes
from layernorm_backward.sums import tree_depth, tree_sum
from layernorm_backward.theory import magnitudes, mean_bounds, variance_bounds
from layernorm_backward.variance import welford
from rationals import SLACK, U, mean, near, rounded_tree, rows, square
from workspace import ROOT


def test_equation_naivevariance_counts_every_rounding():
    """All roundings against the variance, of a row of two values far from zero."""
    s, offset = 6, 40
    x = [Fraction(offset + n % 2 * 2 - 1) for n in range(64)]  # variance 1
    squares = rounded_tree([value**2 * (1 + U) for value in x], U) / 64 * (1 + U)
    found = (squares - (rounded_tree(x, -U) / 64 * (1 - U)) ** 2 * (1 - U)) * (1 + U)
    assert near((found - 1) / U, (s + 2) * (1 + offset**2) + (2 * (s + 1) + 1) * offset**2 + 1)
    kappa = np.array([np.hypot(1, offset)])
    bound = variance_bounds.naive(kappa, np.zeros(1), 64, float(U))[0]
    assert 0.9 * bound < float(found - 1) < bound
    differences = [(value - 5) * (1 + U) for value in x]
    both = rounded_tree([value**2 * (1 + U) for value in differences], U) / 64 * (1 + U)
    assert near((both / square([value - 5 for value in x]) - 1) / U, s + 4)


@pytest.mark.parametrize("t", [Fraction(0), Fraction(1, 2), Fraction(9)])
def test_equation_squaresabout_counts_every_rounding(t):
    """Of a row of two values; re-centred, the first rounding of each is away from the mean."""
    s, x = 6, [Fraction(n % 2 * 2 - 1) for n in range(64)]  # mean 0, variance 1
    about = rounded_tree([((value + t) * (1 + U)) ** 2 * (1 + U) for value in x], U) / 64 * (1 + U)
    assert near((about / (1 + t**2) - 1) / U, s + 4)
    z = [(value + abs(value + t) * value * U) * (1 + U) for value in x]
    found = rounded_tree([value**2 * (1 + U) for value in z], U) / 64 * (1 + U) - 1
    assert near(found / U, s + 4 + 2 * max(1, t))
    row = magnitudes.Rows(np.array([float(t / U / (s + 1))]), np.zeros(1), np.ones(1), 64)
    bound = mean_bounds.recentred(row, s, float(U)).variance[0]
    assert (0.7 if t else 0.99) * bound < float(found) < bound * (1 + float(SLACK))  # U^2 terms


def welford_moved(x, errors):
    """M of Welford's updates whose running means gain `errors`, one an update from the second on."""
    mean_k, total = x[0], Fraction(0)
    for k, (value, error) in enumerate(zip(x[1:], errors, strict=True), start=2):
        step = value - mean_k
        mean_k += step / k + error
        total += step * (value - mean_k)
    return total


def test_equation_welfordvariance_is_what_each_error_of_the_running_mean_moves():
    rng = np.random.default_rng(35)
    for row in rows(hidden=12):
        errors = [Fraction(int(n), 7) for n in rng.integers(-5, 6, 11)]
        e, moved = Fraction(0), Fraction(0)
        for k, error in enumerate(errors, start=2):
            before, e = e, (1 - Fraction(1, k)) * e + error
            moved += before * e - (row.x[k - 1] - mean(row.x[: k - 1])) * (2 * e - error)
        assert welford_moved(row.x, errors) - 12 * row.variance == moved
    assert r"With $\Delta_k = x_k - \mu_{k-1}$," in (ROOT / "paper/paper.md.j2").read_text(encoding="utf-8")


def of_running_means(hidden):
    """What the distance of the running means from mu, and the roundings of difference and quotient, add to
    nu, in roundings; at most, by the inequalities of Cauchy for the sums over the updates."""
    k = np.arange(1, hidden + 1)
    near_mu = np.sqrt(hidden * np.minimum(k, hidden - k)) / k
    near_mu[0] = 0  # x_1 is not rounded
    e = np.cumsum(k * near_mu) / k
    k, keep = k[1:], np.sqrt(k[1:] / (k[1:] - 1))
    means = np.sqrt(np.mean(((near_mu[1:] + 2 * (1 - 1 / k) * e[:-1]) * keep) ** 2) * (hidden - 1) / hidden)
    steps = np.tril(np.tile((4 / k)[:, None], len(k)), -1) + np.diag(2 / k)
    return means + np.linalg.eigvalsh((steps + steps.T) / 2 * keep * keep[:, None])[-1]


def test_equation_welfordbound_has_room_for_all_that_it_leaves_out():
    terms = Fraction(0)
    for hidden in range(2, 257):
        assert of_running_means(hidden) < hidden + 3
        terms += Fraction(hidden**3, hidden - 1)
        assert terms <= hidden**3
    assert 0.85 < (of_running_means(1024) - of_running_means(512)) / 512 < 0.86
    x = [
        Fraction(1000) + n for n in range(64)
    ]  # differences grow with k, as where Cauchy's inequality is one
    spread = square([value - mean(x) for value in x])
    found = welford_moved(x, [-mean(x[:k]) * U for k in range(2, 65)]) / 64 / spread - 1
    kappa = np.array([(float(square(x)) / float(spread)) ** 0.5])
    bound = variance_bounds.welford(kappa, np.zeros(1), 64, float(U))[0]
    assert 3**-0.5 * 0.9 * bound < float(found) < bound


def merges(hidden):
    """The parts, lists of indices, that `variance.chan` merges, level by level."""
    parts = [[at] for at in range(hidden)]
    while len(parts) > 1:
        half = len(parts) // 2
        level = list(zip(parts[:half], parts[half : 2 * half], strict=True))
        yield level
        parts = [one + other for one, other in level] + parts[2 * half :]


@pytest.mark.parametrize("hidden", [2, 7, 13, 24, 33])
def test_equation_merges_add_up_to_the_sum_of_squares(hidden):
    f = [Fraction(n * n % 17) for n in range(hidden)]
    total = Fraction(0)
    for level in merges(hidden):
        for one, other in level:
            assert len(one) >= len(other)
            weight = Fraction(len(one) * len(other), len(one) + len(other))
            total += weight * (mean([f[at] for at in other]) - mean([f[at] for at in one])) ** 2
    assert total == sum((value - mean(f)) ** 2 for value in f)
    assert len(list(merges(hidden))) == tree_depth(hidden)


def chan_moved(x, sign):
    """mean and M of Chan's merges whose means gain a factor 1 + sign(part)*U, M exact but for that."""
    means, spread = {(at,): value for at, value in enumerate(x)}, dict.fromkeys(range(len(x)), Fraction(0))
    for level in merges(len(x)):
        for one, other in level:
            a, b, n = means[tuple(one)], means[tuple(other)], len(one) + len(other)
            means[tuple(one + other)] = (a + (b - a) * len(other) / n) * (1 + sign(one + other) * U)
            spread[one[0]] += spread[other[0]] + (b - a) ** 2 * len(one) * len(other) / n
    return means[tuple(one + other)], spread[0]


def test_equation_chanvariance_is_attained_by_a_row_of_two_values():
    """Means of one value are rounded up, those of the other down; the last merge is of odd and even."""
    s, offset = 6, 1000
    x = [Fraction(offset + n % 2 * 2 - 1) for n in range(64)]  # variance 1
    _, total = chan_moved(x, lambda part: 0 if len(part) == 64 else 2 * (part[0] % 2) - 1)
    found = float(total / 64 - 1)
    kappa = np.array([np.hypot(1, offset)])
    bound = variance_bounds.chan(kappa, np.zeros(1), 64, float(U))[0]
    assert found == pytest.approx(2 * (s - 1) * offset * float(U), rel=1e-3)
    assert 0.95 * bound < found < bound
    highest, _ = chan_moved(x, lambda part: 1)
    drift = mean_bounds.STATISTICS["chan"](
        magnitudes.Rows(kappa, np.zeros(1), np.ones(1), 64), s, float(U)
    ).drift
    assert 0.95 * drift[0] < float(highest - offset) < drift[0]


def test_roundings_that_are_alike_all_over_a_part_leave_chans_variance_alone():
    rng = np.random.default_rng(36)
    x = [Fraction(int(n), 8) for n in rng.integers(700, 900, 24)]
    _, total = chan_moved(x, lambda part: len(part) == 24)
    assert total / 24 == square([value - mean(x) for value in x])


def disturbed_welford(x, k, error):
    """The running mean of x with `error` added after update k."""
    found = x[0] + (error if k == 1 else 0)
    for j, value in enumerate(x[1:], start=2):
        found += (value - found) / j + (error if j == k else 0)
    return found


def test_equation_welforddrift_keeps_a_share_of_each_rounding():
    x = [Fraction(n * n % 11) for n in range(20)]
    kept = [disturbed_welford(x, k, U) - mean(x) for k in range(1, 21)]
    assert kept == [U * Fraction(k, 20) for k in range(1, 21)]
    assert sum(kept) / U == Fraction(21, 2)
    assert welford(np.array([[float(value) for value in x]])).mean[0] == pytest.approx(float(mean(x)))


def disturbed_tree(values, at):
    """A tree sum of `values` whose addition number `at` gains a factor 1 + U."""
    number = 0
    while len(values) > 1:
        half, folded = len(values) // 2, []
        for one, other in zip(values[:half], values[half : 2 * half], strict=True):
            folded.append((one + other) * (1 + U if number == at else 1))
            number += 1
        values = folded + values[2 * half :]
    return values[0]


@pytest.mark.parametrize("count", [4, 16, 64])
def test_equation_random_roundings_add_in_squares(count):
    """What each single rounding does to the mean of a constant row, squared and summed."""
    ones = [Fraction(1)] * count
    gains = [(disturbed_tree(ones, at) / count - 1) / U for at in range(count - 1)]
    assert sum(gain**2 for gain in gains) + 1 == 3 - Fraction(2, count)
    kept = [(disturbed_welford(ones, k, U) - 1) / U for k in range(1, count + 1)]
    assert sum(gain**2 for gain in kept) == Fraction((count + 1) * (2 * count + 1), 6 * count)


def test_the_table_of_ways_names_them_as_figures_and_tables_do():
    text = (ROOT / "paper" / "paper.md.j2").read_text(encoding="utf-8")
    rows = text[text.index("| Algorithm |") : text.index("{#tbl:ways")].splitlines()[2:]
    first = [row.split("|")[1] for row in rows if row.startswith("|")]
    assert sorted(re.findall("`(\\w+)`", " ".join(first))) == sorted(passes.ALGORITHMS)


def naive(s, kappa, u, differences=0):
    """nu of the naive form; of a row of differences each element carries a rounding more."""
    mu, mean = np.sqrt(kappa**2 - 1), s + 1 + differences
    squares = (s + 2 + 2 * differences) * kappa**2
    return u * (squares + 2 * mean * mu * kappa + 3 * mu**2 + 2) + (mean * u * kappa) ** 2


S, D, U32, U64 = 7, 100, 2.0**-24, 2.0**-53
KAPPA, FIRST = np.array([1.5, 30.0, 1e4]), np.array([0.0, 0.5, 9.0])
MU, T, T64 = np.sqrt(KAPPA**2 - 1), (S + 1) * U32 * KAPPA, (S + 1) * U64 * KAPPA
MET = (S + 2) * U32 * np.hypot(1, T)
ROUNDED = U32 * MU + T64
TABLE = {
    "naive": (T, naive(S, KAPPA, U32)),
    "naive_s2": (T, naive(S, KAPPA, U32)),
    "naive_nn": (T, naive(S, KAPPA, U32)),
    "naive_compensated": (
        (2 + 3 * D**2 * U32) * KAPPA * U32,
        naive(1, KAPPA, U32) + 3 * (D * U32 * KAPPA) ** 2,
    ),
    "two_pass": (T, (S + 4) * U32 * (1 + T**2) + T**2),
    "two_pass_corrected": (U32 * MU + MET, naive(S, np.hypot(1, T), U32, 1)),
    "welford": (
        ((D + 1) / 2 * (MU + 1) + 9) * U32,
        (D * (MU + 2) + 6) * U32 + (D * (MU + 1) * U32) ** 2,
    ),
    "chan": (
        S * (KAPPA + 3) * U32,
        (2 * (S - 1) * (KAPPA + 3) + 2 * S + 5) * U32 + (S * (KAPPA + 3) * U32) ** 2,
    ),
    "shifted": (U32 * MU + (S + 2) * U32 * np.hypot(1, FIRST), naive(S, np.hypot(1, FIRST), U32, 1)),
    "float64_mean": (ROUNDED, (S + 4) * U32 * (1 + ROUNDED**2) + ROUNDED**2),
    "float64_statistics": (T64, (S + 4) * U64 * (1 + T64**2) + T64**2),
    "recentred": (MET, (S + 6 + 2 * T) * U32 * (1 + MET**2) + MET**2),
    "recentred_sums": (MET, (S + 6) * U32 * (1 + T**2) + 2 * T * MET + MET**2),
}


@pytest.mark.parametrize("way", passes.ALGORITHMS)
def test_the_program_evaluates_the_table_of_ways(way):
    """TABLE is the paper's, term by term; rel: only the order of operations in float64 is another."""
    found = mean_bounds.STATISTICS[way](magnitudes.Rows(KAPPA, FIRST, np.ones(3), D), S, U32)
    assert found.drift == pytest.approx(TABLE[way][0], rel=1e-9, abs=0)
    assert found.variance == pytest.approx(TABLE[way][1], rel=1e-9, abs=0)


def test_about_a_number_a_deviation_off_the_variance_errs_up_to_five_times_as_much_and_not_twice():
    """delta errs as the mean of the squares does, and 2*delta of that error is in its square."""
    z = np.random.default_rng(7).standard_normal((1000, 1024))
    z = (z - z.mean(axis=1, keepdims=True)) / z.std(axis=1, keepdims=True)
    x = np.asarray(z + 100, dtype=np.float32)
    exact, errors, bounds = x.astype(np.float64).var(axis=1), [], []
    for t in (0, 1):
        shifted, depth, u = x - np.float32(100 - t), tree_depth(1024), 2.0**-24
        delta = tree_sum(shifted) / np.float32(1024)
        found = tree_sum(shifted * shifted) / np.float32(1024) - delta * delta
        errors.append(np.sqrt(np.mean((found / exact - 1) ** 2)))
        row = magnitudes.Rows(np.full(1, 100.0), np.zeros(1), np.ones(1), 1024)
        bounds.append(mean_bounds.recentred_sums(row, depth, u, np.full(1, float(t))).variance[0])
        assert np.abs(found / exact - 1).max() < bounds[-1]
    assert 2 < errors[1] / errors[0] < 5
    assert 2 < bounds[1] / bounds[0] < 5
    text = (ROOT / "paper" / "paper.md.j2").read_text(encoding="utf-8")
    assert "at most doubles" not in text
    assert "at most fivefold" in text

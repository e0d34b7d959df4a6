"""Bounds hold on rows made to break them, are infinite where there is none, and would be seen to fail."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from host_kernels import HOST
from layernorm_backward import inputs, oracle, passes
from layernorm_backward.dtypes import dtype_of, unit_roundoff
from layernorm_backward.errors import rel_error
from layernorm_backward.kernels import cuda_fused, cuda_separate, lanes, numba_walk
from layernorm_backward.problem import draw
from layernorm_backward.sums import lanes_depth
from layernorm_backward.theory import bounds, identity, kernel_bounds, mean_bounds
from layernorm_backward.theory.exact_rows import exact_rows
from layernorm_backward.theory.kernel_bounds import BLOCK, LINE, Model, for_model
from layernorm_backward.theory.magnitudes import MAGNITUDES, rows_of, squares
from layernorm_backward.theory.result_bounds import Rounding, sizes, within

EPS, HIDDEN = 1e-5, 128


def hard_rows(kappa, dtype=np.float64):
    """Gaussian rows, rows of one outlier (first, or last), sorted rows, rows of two values; dy ~ N(1,1)."""
    rng = inputs.generator(8)
    normal = rng.standard_normal((16, HIDDEN))
    outlier = 1e-3 * normal + np.where(np.arange(HIDDEN) == 0, np.sqrt(HIDDEN), 0)
    rows = [normal, outlier, outlier[:, ::-1], np.sort(normal), np.sign(np.sort(normal))]
    x = np.concatenate(rows) + inputs.mean_of_kappa(kappa)
    return draw(rng, x.astype(dtype), "shifted", "random")


def judged(way, problem):
    """Of y, dx, dgamma, dbeta: the error over the bound of each row that has a bound."""
    values = problem.values()
    moments = oracle.moments(values[0])
    truth = oracle.results(*values, EPS)
    found = passes.run(way, problem, EPS, problem.x.dtype).results
    limits = bounds.for_algorithm(way, problem, moments, EPS, problem.x.dtype)
    return [
        np.atleast_1d(rel_error(part, exact) / limit)
        for part, exact, limit in zip(found, truth, limits, strict=True)
    ]


@pytest.mark.parametrize("kappa", [1.0, 30.0, 1e3, 1e6])
@pytest.mark.parametrize("way", passes.ALGORITHMS)
def test_no_error_exceeds_its_bound_on_hard_rows(way, kappa):
    for ratio in judged(way, hard_rows(kappa)):
        assert ratio.max() <= 1


@pytest.mark.parametrize("kappa", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("way", passes.ALGORITHMS)
def test_the_mean_drifts_by_no_more_than_it_may(way, kappa):
    """Mean and rstd apart from all else: eta against the drift, rho against the error of the variance."""
    problem = hard_rows(kappa)
    moments = oracle.moments(problem.x)
    off = identity.deviation(passes.run(way, problem, EPS, np.float64), moments, EPS)
    statistics, _ = bounds.error_model(way, problem.x.shape, moments, np.float64, np.float64)
    assert (np.abs(off.eta[:, 0]) <= statistics.drift).all()
    if (statistics.variance < 0.1).all():
        assert (np.abs(off.rho[:, 0]) <= 0.6 * statistics.variance + 3.1 * unit_roundoff(np.float64)).all()


@pytest.mark.parametrize("way", ["shifted", "two_pass_corrected", "float64_mean"])
def test_half_of_a_sharp_bound_of_the_mean_would_be_exceeded(way):
    problem = hard_rows(1e4)
    moments = oracle.moments(problem.x)
    exact = exact_rows(moments, *problem.values()[1:], EPS)
    found = passes.run(way, problem, EPS, np.float64).results
    error = rel_error(found.dx, oracle.backward(problem.x, problem.gamma, problem.dy, EPS).dx)
    statistics, rounding = bounds.error_model(way, problem.x.shape, moments, np.float64, np.float64)
    halved = statistics._replace(drift=statistics.drift / 2)
    if way == "float64_mean":  # float64 rows: a plain sum; what it must cover is u*mu
        halved = statistics._replace(drift=unit_roundoff(np.float64) * rows_of(moments).mu / 4)
    assert (error > within(exact, sizes(exact), halved, rounding).dx).any()


def test_the_bound_of_a_re_centred_pass_does_not_depend_on_kappa():
    small, large = (
        bounds.for_algorithm("recentred", it, oracle.moments(it.x), EPS, np.float64).dx.max()
        for it in (hard_rows(1.0), hard_rows(1e8))
    )
    assert large == pytest.approx(small, rel=1e-2)


def test_the_bound_of_welford_is_loose():
    """It grows as D; the roundings of a running mean do not all point the same way."""
    ratio = judged("welford", hard_rows(1e3))[1]
    assert np.median(ratio) < 0.05


def test_there_is_no_bound_where_the_variance_may_be_lost():
    problem = hard_rows(1e9)
    limits = bounds.for_algorithm("naive", problem, oracle.moments(problem.x), EPS, np.float64)
    assert np.isinf(limits.y).all()
    assert np.isinf(limits.dx).all()
    assert np.isinf(limits.dgamma)
    assert np.isfinite(limits.dbeta)


@pytest.mark.parametrize(("way", "finite"), [("two_pass", False), ("chan", True), ("shifted", True)])
def test_there_is_no_bound_where_a_sum_may_overflow(way, finite):
    """float16 ends at 65504; 128 elements of a mean of 600 sum to more, their differences do not."""
    problem = hard_rows(600.0, np.float16)
    moments = oracle.moments(inputs.values(problem.x))
    statistics, rounding = bounds.error_model(way, problem.x.shape, moments, np.float16, np.float16)
    assert ((statistics.magnitude < rounding.largest / 2).any()) == finite


def test_there_is_no_bound_within_a_factor_two_of_overflow_in_either_pass():
    problem = hard_rows(1.0)
    moments, (_, gamma, beta, dy) = oracle.moments(problem.x), problem.values()
    statistics, rounding = bounds.error_model("two_pass", problem.x.shape, moments, np.float64, np.float64)

    def is_bounded(size, share):
        exact = exact_rows(moments, gamma, beta, size * dy, EPS)
        narrow = replace(rounding, largest=statistics.magnitude.max() / share)
        return np.isfinite(within(exact, sizes(exact), statistics, narrow).dx).all()

    assert is_bounded(1e-3, 0.49) and not is_bounded(1e-3, 0.51)
    assert not is_bounded(1e3, 0.49)  # sums of g


def test_x_hat_is_rounded_when_saved_in_16_bits_only():
    saves = Model(kernel_bounds.pairwise, mean_bounds.two_pass, rounds_x_hat=True)
    for dtype in (np.float32, np.float16):
        problem = hard_rows(1.0, dtype)
        moments = oracle.moments(inputs.values(problem.x))
        one, other = (
            for_model(it, problem, moments, EPS) for it in (saves, saves._replace(rounds_x_hat=False))
        )
        assert (one.dx > other.dx).all() == (dtype == np.float16)


@pytest.mark.parametrize("kappa", [1.0, 30.0, 1e3])
def test_the_reach_of_the_squares_is_their_sum_on_rows_off_zero(kappa):
    x = hard_rows(kappa).x
    found = squares(rows_of(oracle.moments(x)), np.zeros(len(x)))
    assert (found >= np.sum(x * x, axis=1) * (1 - 1e-12)).all()
    assert (found <= np.maximum(np.sum(x * x, axis=1), HIDDEN) * (1 + 1e-12)).all()


FORMED = {
    "naive_s2": lambda x: np.sum(x, axis=1) ** 2,
    "naive_nn": lambda x: np.sum(x, axis=1) ** 2,
    "naive_compensated": lambda x: np.maximum(np.sum(np.abs(x), axis=1), np.sum(x * x, axis=1)),
    "welford": lambda x: np.sum((x - x.mean(axis=1, keepdims=True)) ** 2, axis=1),
    "shifted": lambda x: np.sum((x - x[:, :1]) ** 2, axis=1),
}


@pytest.mark.parametrize("size", [1e-2, 1e2])
@pytest.mark.parametrize("name", FORMED)
def test_no_algorithm_forms_a_sum_beyond_its_largest_magnitude(name, size):
    """The numbers are those of the rows; 1e-9: they are found from moments, in float64."""
    x = size * hard_rows(30.0).x
    found = MAGNITUDES[name](rows_of(oracle.moments(x)), np.zeros(len(x)))
    assert (found >= FORMED[name](x) * (1 - 1e-9)).all()


def test_lanes_are_as_deep_as_a_block_of_lines_the_blocks_and_the_pairs_of_lanes():
    assert (BLOCK, LINE) == (numba_walk.BLOCK, lanes.LINE)
    assert [lanes_depth(count, 16, 16) for count in (1, 16, 17, 256, 257, 65536)] == [4, 4, 5, 19, 20, 274]


def test_an_algebraic_mean_starts_from_a_shift_of_up_to_one_standard_deviation():
    rows = rows_of(oracle.moments(hard_rows(1e3).x))
    plain = mean_bounds.recentred_sums(rows, 7, 2.0**-53)
    assert (mean_bounds.algebraic(rows, 7, 2.0**-53).drift > plain.drift).all()
    assert (mean_bounds.algebraic(rows, 7, 2.0**-53).drift < 1.5 * plain.drift).all()
    assert (mean_bounds.algebraic(rows, 7, 2.0**-53).stray > plain.stray).all()
    rounded = np.full_like(rows.kappa, 1 + 2.0**-20)  # a shift that one standard deviation was rounded to
    further = mean_bounds.recentred_sums(rows, 7, 2.0**-53, rounded)
    assert (mean_bounds.algebraic(rows, 7, 2.0**-53).variance > further.variance).all()


def test_y_sees_the_shift_that_it_is_formed_about_and_dx_the_mean_that_is_saved():
    problem, u = hard_rows(30.0), unit_roundoff(np.float64)
    moments = oracle.moments(problem.x)
    exact = exact_rows(moments, *problem.values()[1:], EPS)
    size, found = sizes(exact), mean_bounds.algebraic(rows_of(moments), 7, u)
    rounding = Rounding(u, u, depth=7, row_depth=7)
    about_shift = within(exact, size, found, rounding)
    about_saved = within(exact, size, found._replace(stray_forward=None), rounding)
    offset = u * (2 * mean_bounds.SHIFT - found.stray) * (np.sqrt(exact.share) * size.gamma / size.y)[:, 0]
    assert (
        about_shift.y - about_saved.y == pytest.approx(offset, rel=1e-2, abs=0) and (offset > 0.5 * u).all()
    )
    assert (about_shift.dx == about_saved.dx).all() and about_shift.dgamma == about_saved.dgamma


@pytest.mark.parametrize("name", ["numba_fused", "cuda_fused"])
def test_a_rounded_reciprocal_of_the_row_length_counts_as_one_addition_more(name):
    sums = {"numba_fused": kernel_bounds.lines, "cuda_fused": cuda_fused.depth}[name]
    depths = [kernel_bounds.MODELS[name].depth(hidden, 4) for hidden in (1, 1000, 1024)]
    assert depths == [sums(1, 4), sums(1000, 4) + 1, sums(1024, 4)]


@pytest.mark.parametrize(
    ("dtype", "kappa"),
    [*product(["float64", "float32"], [1.0, 1e3, 1e6]), ("bfloat16", 1.0), ("bfloat16", 30.0)],
)
@pytest.mark.parametrize("name", [name for name in HOST if name.endswith("(emulated)")])
def test_no_error_of_a_cuda_kernel_exceeds_its_bound_on_hard_rows(name, dtype, kappa):
    problem = hard_rows(kappa, dtype_of(dtype))
    moments = oracle.moments(inputs.values(problem.x))
    y, saved = HOST[name].forward(problem.x, problem.gamma, problem.beta, EPS)
    found = (y, *HOST[name].backward(problem.dy, saved))
    limits = kernel_bounds.for_kernel(name.split()[0], problem, moments, EPS)
    for part, exact, limit in zip(found, oracle.results(*problem.values(), EPS), limits, strict=True):
        assert (rel_error(inputs.values(part), exact) <= limit).all()


@pytest.mark.parametrize(
    ("hidden", "itemsize", "additions"),
    [
        (1, 4, 0),
        (8, 8, 2 + 2),  # two elements a thread, and one before or behind where the row begins between two
        (1024, 2, 31 + 5),  # in the forward pass 32 elements a thread
        (4096, 4, 16 + 8),
        (100_000, 4, 195 + 9),  # beyond the chip: columns of 512 threads
    ],
)
def test_sums_of_cuda_fused_are_as_deep_as_a_threads_elements_and_the_pairs_of_threads(
    hidden, itemsize, additions
):
    assert cuda_fused.depth(hidden, itemsize) == additions


def test_sums_of_cuda_separate_are_a_warps_or_a_blocks():
    assert [cuda_separate.depth(hidden, 4) for hidden in (1, 1024, 1025)] == [5, 31 + 5, 4 + 8]

"""The checker passes right gradients, fails wrong ones with the values, and leaves its arguments alone."""

import math
from dataclasses import replace

import numpy as np
import pytest

from layernorm_backward import stopwatch
from layernorm_backward.experiments import gradient_check as experiment
from layernorm_backward.gradient_check import METHODS, GradientError, Point, adequate, check, normal
from layernorm_backward.gradient_check import tolerance as allowed
from layernorm_backward.gradient_check.comparison import Comparison
from layernorm_backward.gradient_check.differences import by_column
from layernorm_backward.gradient_check.methods import central, richardson
from layernorm_backward.kernels import KERNELS
from layernorm_backward.kernels.reference import forward_equations
from layernorm_backward.records.schemas import SCHEMAS

REFERENCE = KERNELS["reference"]


def spoiled(change):
    """The reference as a pair, its backward pass followed by `change(dx, dgamma, dbeta)`."""
    return REFERENCE.forward, lambda dy, saved: change(*REFERENCE.backward(dy, saved))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["reference", "compact", "overcached", "recentred"])
def test_a_right_kernel_passes_with_every_method(name, method):
    table = check(KERNELS[name], shape=(2, 4, 8), method=method)
    assert table.passed.all()
    assert set(table.quantity) == {"dx", "dgamma", "dbeta"}
    assert set(table.scope) == {"full", "directions"}
    assert (table.rel_error < 1e-6).all()


def test_the_compiled_kernel_passes():
    with stopwatch.threads(1):
        assert check(KERNELS["numba_fused"], shape=(3, 8)).passed.all()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(1, 1), (8, 2), (4, 8, 16)], ids=str)
def test_a_right_kernel_passes_in_every_dtype(dtype, shape):
    for method in METHODS:
        assert check(KERNELS["recentred"], shape=shape, dtype=dtype, method=method).passed.all()


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 1), (7,), (0, 3), (2, 2, 31), (300, 4)], ids=str)
def test_any_shape_is_checked(shape):
    assert check(KERNELS["compact"], shape=shape).passed.all()


@pytest.mark.parametrize("seed", range(8))
def test_a_right_kernel_stays_well_inside_its_tolerance(seed):
    table = check(KERNELS["overcached"], shape=(4, 4, 8), seed=seed)
    assert table.error_over_tolerance.max() < 0.5


def test_the_error_names_the_element_and_both_values():
    def shift_one(dx, dgamma, dbeta):
        dx[1, 2, 3] += 1e-3
        return dx, dgamma, dbeta

    with pytest.raises(GradientError, match=r"dx \(full\) is wrong at \(1, 2, 3\).*1 of 32 failed") as caught:
        check(spoiled(shift_one))
    found = caught.value
    assert (found.quantity, found.index) == ("dx", (1, 2, 3))
    assert found.analytic - found.numeric == pytest.approx(1e-3, rel=1e-5)
    assert found.error == pytest.approx(1e-3, rel=1e-5)
    assert found.tolerance < 1e-5
    assert repr(found.analytic) in str(found)


def test_the_error_names_an_element_of_a_unit_that_failed_and_not_a_larger_one_that_passed():
    analytic, numeric = np.array([[0.0, 5.0], [1.0, 0.0]]), np.zeros((2, 2))
    assert Comparison("dx", "full", analytic, numeric, np.array([10.0, 0.5]), 1).worst() == (1, 0)


def test_errors_are_measured_over_the_numeric_norm_the_larger_element_and_the_sum():
    found = Comparison("dx", "full", np.array([[6.0, 0.0]]), np.array([[3.0, 4.0]]), np.array([0.5]), 1)
    assert found.measures() == {
        "rel_error": 1.0,
        "max_element_error": 1.0,
        "max_norm_error": 4 / 9,
        "max_abs_error": 4.0,
        "tolerance": 0.1,
    }
    doubled = found._replace(analytic=np.array([[6.0, 4.0]]))
    assert doubled.measures()["max_element_error"] == 0.5


def test_a_wrong_gradient_fails_in_its_own_row_of_the_table():
    table = check(spoiled(lambda dx, dgamma, dbeta: (dx, 1.000001 * dgamma, dbeta)), raise_on_failure=False)
    failed = table[~table.passed]
    assert set(failed.quantity) == {"dgamma"}
    assert set(failed.scope) == {"full", "directions"}


def test_a_gradient_that_is_not_a_number_fails():
    with pytest.raises(GradientError, match="analytic nan"):
        check(spoiled(lambda dx, dgamma, dbeta: (dx, dgamma, dbeta * np.nan)))


def test_a_gradient_of_the_wrong_shape_is_refused():
    with pytest.raises(ValueError, match=r"dgamma has shape \(1, 16\); allowed: \(16,\)"):
        check(spoiled(lambda dx, dgamma, dbeta: (dx, dgamma[None], dbeta)))


def test_a_forward_pass_that_ignores_x_is_detected():
    def frozen_forward(x, gamma, beta, eps):
        still = adequate(x.shape, eps, seed=5).x
        return REFERENCE.forward(still, gamma, beta, eps)[0], REFERENCE.forward(x, gamma, beta, eps)[1]

    with pytest.raises(GradientError, match="dx") as caught:
        check((frozen_forward, REFERENCE.backward))
    assert caught.value.numeric == 0


def test_a_forward_pass_that_mixes_rows_is_seen_by_the_directions():
    def mixing_forward(x, gamma, beta, eps):
        y, saved = REFERENCE.forward(x, gamma, beta, eps)
        return y + 0.01 * np.roll(x, 1, axis=0), saved

    with pytest.raises(GradientError):
        check((mixing_forward, REFERENCE.backward), shape=(4, 8))


class Broken(Exception):
    """Raised by a kernel on purpose."""


@pytest.mark.parametrize("call", [1, 2, 5])
def test_the_arguments_are_untouched_when_the_kernel_raises(call):
    calls = []

    def failing_forward(x, gamma, beta, eps):
        calls.append(x)
        if len(calls) == call:
            raise Broken
        return REFERENCE.forward(x, gamma, beta, eps)

    point = normal((2, 3, 4), seed=1)
    before = [part.tobytes() for part in point]
    with pytest.raises(Broken):
        check((failing_forward, REFERENCE.backward), point)
    assert [part.tobytes() for part in point] == before
    assert all(part.flags.writeable for part in point)
    assert not any(np.shares_memory(x, point.x) for x in calls)


def test_a_kernel_that_writes_to_its_arguments_fails_and_does_not_reach_the_caller():
    def greedy_forward(x, gamma, beta, eps):
        gamma *= 2
        return REFERENCE.forward(x, gamma, beta, eps)

    point = normal((2, 3, 4), seed=1)
    before = point.gamma.copy()
    with pytest.raises(ValueError, match="read-only"):
        check((greedy_forward, REFERENCE.backward), point)
    assert (point.gamma == before).all()


def test_views_and_read_only_points_are_checked_as_they_are():
    wide = normal((3, 12), seed=2)
    point = Point(wide.x[:, ::2], wide.gamma[::2], wide.beta[::2], wide.dy[:, ::2])
    for part in point:
        part.flags.writeable = False
    assert check(KERNELS["compact"], point).passed.all()


def one_wrong_row(row, factor=1.5):
    def change(dx, dgamma, dbeta):
        dx.reshape(-1, dx.shape[-1])[row] *= factor
        return dx, dgamma, dbeta

    return spoiled(change)


LARGE = {"shape": (4, 100, 16), "full_limit": 1000}


def test_above_the_limit_rows_and_directions_take_the_place_of_every_element():
    table = check(KERNELS["compact"], **LARGE)
    assert table[["quantity", "scope"]].values.tolist() == [
        ["dx", "rows"],
        ["dx", "directions"],
        ["dgamma", "directions"],
        ["dbeta", "directions"],
    ]
    assert table.evaluations.max() == 6 * 16


def test_a_tensor_of_over_100_000_elements_is_large():
    assert "full" not in set(check(KERNELS["compact"], shape=(50_001, 2), method="central2").scope)


def test_directions_see_one_wrong_row_that_a_spot_check_misses():
    wrong = one_wrong_row(123, 1 + 1e-7)
    table = check(wrong, **LARGE, raise_on_failure=False).set_index(["quantity", "scope"])
    assert table.passed["dx", "rows"], "row 123 is not among the 8 of 400 that were drawn"
    assert not table.passed["dx", "directions"]


def test_a_spot_check_of_the_wrong_row_sees_it():
    with pytest.raises(GradientError, match=r"dx \(rows\) is wrong at \(123, "):
        check(one_wrong_row(123), **LARGE, spot_rows=400)


def test_which_rows_a_spot_check_takes_is_drawn():
    options = LARGE | {"spot_rows": 200, "method": "central2", "directions": 1, "raise_on_failure": False}
    tables = (check(one_wrong_row(399), **options, seed=seed) for seed in range(8))
    assert {bool(table[table.scope == "rows"].passed.item()) for table in tables} == {False, True}


def test_a_tolerance_of_ones_own_is_relative_to_each_row():
    slightly_wrong = spoiled(lambda dx, dgamma, dbeta: (dx * (1 + 1e-5), dgamma, dbeta))
    assert check(slightly_wrong, tolerance=1e-4).passed.all()
    with pytest.raises(GradientError):
        check(slightly_wrong, tolerance=1e-6)


def test_a_tolerance_of_ones_own_does_not_grow_with_the_gradient_that_is_judged():
    """dx three times too large is off by two of the right ones, and by two thirds of its own."""
    with pytest.raises(GradientError):
        check(spoiled(lambda dx, dgamma, dbeta: (3 * dx, dgamma, dbeta)), tolerance=1.5)


def test_a_kernel_is_checked_with_its_own_eps_and_in_as_many_directions_as_asked_for():
    seen = set()

    def forward(x, gamma, beta, eps):
        seen.add(eps)
        return REFERENCE.forward(x, gamma, beta, eps)

    own = replace(REFERENCE, forward=forward, default_eps=0.25)
    table = check(own, shape=(2, 8), method="central4", directions=3)
    assert seen == {0.25}
    assert set(table[table.scope == "directions"].evaluations) == {3 * 4}


def test_an_unknown_method_is_named_with_what_is_allowed():
    with pytest.raises(ValueError, match="unknown method 'forward'; allowed: central2, central4"):
        check(REFERENCE, method="forward")


@pytest.mark.parametrize("method", [central(2), central(4), central(6), richardson(1), richardson(2)])
def test_the_weights_of_a_method_cancel_every_power_below_its_order(method):
    for power in range(0, method.order + 2, 2):
        moment = sum(weight * offset**power for offset, weight in method.terms)
        expected = 1.0 if power == 0 else 0.0
        assert (math.isclose(moment, expected, abs_tol=1e-12)) == (power < method.order)


def test_evaluations_and_what_they_amplify_rounding_errors_by_are_counted():
    """Of order 4: weights 4/3 and -1/3 at one step and two; a complex step subtracts nothing."""
    assert (central(4).points, central(4).amplification) == (4, pytest.approx(4 / 3 + 1 / 6))
    assert (METHODS["complex_step"].points, METHODS["complex_step"].amplification) == (1, 0)


def test_a_difference_is_taken_over_the_step_as_it_was_rounded():
    """Far from zero a step of 0.02 is rounded by a sixth; the slope of y = x stays 1 to the last bits."""
    x = np.full((2, 3), 1e5, np.float32) + np.arange(3, dtype=np.float32)
    slope = by_column(lambda moved: moved, x, np.full(2, 0.02), np.ones((2, 3)), central(2))
    assert slope == pytest.approx(np.ones((2, 3)), rel=1e-12)


def test_one_halving_of_richardson_is_the_stencil_of_order_4_at_half_the_step():
    halved = [(2 * offset, weight) for offset, weight in richardson(1).terms]
    assert np.allclose(sorted(halved), sorted(central(4).terms), rtol=1e-15, atol=0)


def test_the_truncation_constant_is_that_of_the_normalized_step():
    t = np.array([0.01, 0.02])
    for method in (central(2), central(4), central(6), richardson(2)):
        curve = sum(w * 2 * o * t / np.sqrt(1 + (o * t) ** 2) / (2 * o * t) for o, w in method.terms)
        error = np.abs(curve - 1)
        assert error[1] == pytest.approx(method.truncation * t[1] ** method.order, rel=0.02)
        if method.order < 6:
            assert np.log2(error[1] / error[0]) == pytest.approx(method.order, abs=0.02)


def test_the_best_step_is_where_the_modelled_error_is_least():
    model = allowed.model(adequate((4, 16), 1e-5, seed=0), 1e-5)
    for method in (central(2), central(4), central(6), richardson(2)):
        best = allowed.best_step(model, method)
        least = allowed.dx_tolerance(model, method, best)
        for factor in (0.8, 1.25):
            assert (allowed.dx_tolerance(model, method, factor * best) > least).all()


def test_a_step_is_half_a_deviation_at_most_but_always_two_numbers_or_more():
    """Nearly no signal asks for a large step; far from zero the nearest offset must move."""
    for gamma in (0.0, 1e-30):
        silent = allowed.model(normal((2, 16), seed=1)._replace(gamma=np.full(16, gamma)), 1e-5)
        assert allowed.best_step(silent, central(2)) == pytest.approx(0.5 * silent.scale)
    far = normal((2, 16), seed=1, dtype="float32")
    found = allowed.model(far._replace(x=far.x + np.float32(2.0**24)), 1e-5)
    assert (allowed.best_step(found, richardson(2)) / 4 >= 2 * 2.0).all()  # neighbours are 2 apart there


@pytest.mark.parametrize("method", [central(2), central(6), METHODS["central2_of_loss"]])
def test_what_is_allowed_is_what_the_module_says_of_it(method):
    """Written out anew; rel: the same arithmetic in another order, and u of float32 cancels nothing."""
    point, step, u = normal((5, 16), seed=2, dtype="float32"), 0.01, 2.0**-24
    x, gamma, beta, dy = (part.astype(float) for part in point)
    s = np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)
    kappa, x_hat = np.sqrt(1 + (x.mean(axis=-1, keepdims=True) / s) ** 2), (x - x.mean(-1, keepdims=True)) / s
    m = np.abs(gamma) * (np.abs(x_hat) + 1) + np.abs(beta)
    noise, t = 6 * u * np.linalg.norm(kappa * dy * m, axis=-1), step / s[:, 0]
    spread = np.linalg.norm(noise) if method.of_loss else noise
    truncated = method.truncation * t**method.order * np.linalg.norm(gamma * dy, axis=-1)
    wanted = 2 / s[:, 0] * (truncated + noise + method.amplification / t * 4 * spread)
    found = allowed.model(point, 1e-5)
    assert allowed.dx_tolerance(found, method, step) == pytest.approx(wanted, rel=1e-12)
    columns = np.linalg.norm((kappa * u * np.abs(dy) * (m + np.abs(x_hat) + 1)).sum(axis=0))
    wanted = 2 * (6 + np.sqrt(5) + method.amplification / step) * columns
    assert allowed.parameter_tolerance(found, method, step) == pytest.approx(wanted, rel=1e-12)


def test_sums_over_many_rows_may_err_by_the_root_of_their_number():
    """A running sum of positive terms errs by sqrt(rows/3)*u of itself, more than all else allowed."""
    rng = np.random.default_rng(3)
    x, dy = rng.standard_normal((100_000, 4)), 1 + rng.random((100_000, 4))
    point = Point(*(part.astype(np.float32) for part in (x, np.full(4, 0.01), np.zeros(4), dy)))
    options = {"full_limit": x.size, "method": "central2", "directions": 1}
    table = check(KERNELS["compact"], point, **options).set_index(["quantity", "scope"])
    without = (math.log2(4) + 2 + 1) / (math.log2(4) + 2 + 1 + math.sqrt(100_000))
    assert table.error_over_tolerance["dbeta", "full"] > without


def test_the_adequate_rows_hold_variance_near_eps_and_a_far_mean():
    eps = 1e-5
    found = forward_equations(*adequate((4, 8, 16), eps, seed=0)[:3], eps)
    var, ratio = found.var.ravel(), np.abs(found.mean / np.sqrt(found.var)).ravel()
    assert ((var[1::4] / eps > 0.1) & (var[1::4] / eps < 10)).all()
    assert (ratio[2::4] > 300).all()
    assert (var[::4] > 0.1).all()


@pytest.mark.parametrize(("dtype", "far"), [("float32", 1e3), ("float16", 2**5.5), ("bfloat16", 16.0)])
def test_the_adequate_rows_lie_less_far_out_where_their_spread_would_be_rounded_away(dtype, far):
    x = adequate((4, 8, 64), 1e-5, seed=0, dtype=dtype).x.reshape(-1, 64)[2::4].astype(float)
    assert x.mean() == pytest.approx(far, abs=0.2) and x.std(axis=-1).min() > 0.7


def config(**changes):
    return {
        "kernels": ["compact"],
        "methods": ["central2", "complex_step"],
        "steps": [1e-2, 1e-5],
        "complex_steps": [1e-100],
        "shapes": [(2, 4, 8)],
        "directions": 2,
        "seed": 7,
        "published_kernels": {"compact": [(2, 4, 8)]},
        "published_methods": ["central2_of_loss", "central2"],
        "published_step": 1e-5,
        "published_seeds": [7, 8],
        "large_shapes": [(4, 4, 8)],
        "large_method": "central4",
        "large_step": 1e-3,
        "spot_rows": 3,
    } | changes


def test_the_table_has_one_row_for_every_cell():
    table, schema = experiment.run(**config()), SCHEMAS["gradient_check"]
    assert set(table.columns) == set(schema.columns)
    assert not table.duplicated(list(schema.keys)).any()
    parts = table.groupby(["method", "scope"]).size().to_dict()
    assert parts == {
        ("central2", "full"): 3 * 3,  # two steps, and the second seed of the published setting
        ("central2", "directions"): 2 * 3,
        ("complex_step", "full"): 3,
        ("complex_step", "directions"): 3,
        ("central2_of_loss", "full"): 2 * 3,
        ("central4", "rows"): 1,
        ("central4", "directions"): 3,
    }
    assert (table.rel_error < table.tolerance).all()
    fine = table[(table.method == "central2") & (table.step == 1e-5) & (table.quantity == "dx")]
    assert (fine.rel_error < 1e-8).all()


def test_the_published_error_measure_is_the_largest_difference_over_the_largest_sum():
    table = experiment.run(**config(steps=[], complex_steps=[], large_shapes=[], published_seeds=[3]))
    row = table[(table.method == "central2_of_loss") & (table.quantity == "dx")].iloc[0]
    kernel, point = KERNELS["compact"], normal((2, 4, 8), 3)
    analytic = kernel.backward(point.dy, kernel.forward(*point[:3], kernel.default_eps)[1])[0]
    assert row.max_norm_error == pytest.approx(row.max_abs_error / (2 * np.abs(analytic).max()), rel=1e-6)


def test_the_error_names_a_nan_first_and_counts_the_units_that_failed():
    analytic = np.array([[1.0, 5.0], [1.0, np.nan], [1.0, 1.0]])
    found = Comparison("dx", "full", analytic, np.ones((3, 2)), np.full(3, 0.1), 6)
    assert found.worst() == (1, 1)
    assert str(GradientError(found)).endswith("; 2 of 3 failed")

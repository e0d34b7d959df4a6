"""Error measures on results whose error is known."""

import numpy as np
import pytest

from layernorm_backward.double_double import DoubleDouble, exactly
from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of, unit_roundoff
from layernorm_backward.errors import error_u, max_abs_error, most_over_bounds, over_bounds, rel_error


@pytest.mark.parametrize("name", DTYPE_NAMES)
def test_one_ulp_above_one_is_two_u(name):
    dtype = dtype_of(name)
    computed = np.array([[1 + 2 * unit_roundoff(dtype), 0.0]]).astype(dtype)
    assert error_u(computed, exactly(np.array([[1.0, 0.0]]))).tolist() == [2.0]


def test_error_u_counts_in_the_dtype_that_is_given():
    computed, exact = np.array([[1.5]]), exactly(np.array([[1.0]]))
    assert error_u(computed, exact, np.float32)[0] == 0.5 * 2**24


def test_rows_are_judged_apart_by_their_norms():
    exact = exactly(np.array([[3.0, 4.0], [30.0, 40.0]]))
    computed = exact.hi + np.array([[0.3, 0.4], [0.0, 0.5]])
    assert rel_error(computed, exact) == pytest.approx([0.1, 0.01])


def test_a_vector_is_one_row():
    assert rel_error(np.array([3.0, 4.5]), exactly(np.array([3.0, 4.0]))) == pytest.approx(0.1)


def test_the_low_part_of_the_exact_result_counts():
    exact = DoubleDouble(np.array([1.0]), np.array([1e-17]))
    assert rel_error(np.array([1.0]), exact) == pytest.approx(1e-17, abs=0)


def test_a_zero_row_is_met_by_zero_only():
    exact = exactly(np.zeros((2, 2)))
    assert rel_error(np.array([[0.0, 0.0], [0.0, 1e-30]]), exact).tolist() == [0.0, np.inf]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_result_that_is_not_finite_is_infinitely_wrong(bad):
    exact = exactly(np.ones((1, 2)))
    assert rel_error(np.array([[1.0, bad]]), exact).tolist() == [np.inf]


def test_where_the_exact_row_is_not_finite_there_is_no_error():
    assert np.isnan(rel_error(np.ones((1, 2)), exactly(np.array([[np.nan, 1.0]]))))


def test_norms_of_tiny_and_huge_rows_neither_underflow_nor_overflow():
    for scale in (1e-200, 1e200):
        exact = exactly(scale * np.ones((1, 4)))
        assert rel_error(exact.hi * 1.5, exact) == pytest.approx([0.5])


def test_the_largest_absolute_error_of_nothing_is_zero():
    assert max_abs_error(np.array([1.0, 2.5]), exactly(np.array([1.0, 2.0]))) == 0.5
    assert max_abs_error(np.empty((0, 3)), exactly(np.empty((0, 3)))) == 0.0


def test_each_row_is_held_against_its_own_bound_and_rows_without_one_are_left_out():
    errors, bounds = np.array([3.0, 9.0, 0.0, 5.0]), np.array([1.0, 90.0, 0.0, np.inf])
    assert over_bounds(errors, bounds).tolist() == [3.0, 0.1, 0.0]
    assert most_over_bounds(errors, bounds) == 3.0
    assert most_over_bounds(np.array([np.inf, 1.0]), np.array([1.0, 2.0])) == np.inf
    assert np.isnan(most_over_bounds(np.array(5.0), np.array(np.inf)))
    assert np.isnan(most_over_bounds(errors, np.array(np.nan)))

"""eps over dtypes and kinds of rows."""

import numpy as np
import pytest

from layernorm_backward import inputs
from layernorm_backward.double_double import DoubleDouble
from layernorm_backward.experiments import eps
from selection import select

SHAPE = {"eps": [1e-12, 1e-8, 1e-5], "rows": 8, "hidden": 1000, "seed": 2}


@pytest.fixture(scope="module")
def table():
    kernels = ["compact", "recentred", "numba_fused"]
    return eps.run(kernels=kernels, dtypes=["float64", "float32", "float16"], **SHAPE)


@pytest.mark.parametrize("row_kind", ["usual", "constant", "nearly_constant"])
def test_a_re_centred_kernel_is_right_at_every_eps(table, row_kind):
    rows = select(table, row_kind=row_kind, reason="")
    rows = rows[rows["kernel"].isin(["recentred", "numba_fused"]) & (rows["dtype"] != "float16")]
    assert rows["finite"].all()
    assert rows["error_u_max"].max() < 16


def test_a_small_eps_magnifies_the_rounded_mean_of_constant_rows(table):
    rows = select(table, kernel="compact", dtype="float32", row_kind="constant", quantity="y")
    errors = rows.set_index("eps")["error_u_max"]
    assert errors[1e-12] > 100 * errors[1e-8] / 2
    assert errors[1e-5] > 100


def test_float16_overflows_in_dx_of_constant_rows_at_small_eps(table):
    rows = select(table, dtype="float16", row_kind="constant", quantity="dx", kernel="recentred")
    finite = rows.set_index("eps")["finite"]
    assert not finite[1e-12]
    assert finite[1e-5]
    assert rows.set_index("eps")["error_u_max"][1e-12] == np.inf


def test_float16_holds_no_eps_below_its_smallest_subnormal(table):
    held = select(table, dtype="float16").groupby("eps")["eps_in_dtype"].first()
    assert held[1e-8] == 0
    assert held[1e-5] == pytest.approx(1e-5, rel=0.01)


def test_a_zero_exact_result_has_no_relative_error_but_says_what_was_computed(table):
    rows = select(table, row_kind="constant", quantity="dgamma", dtype="float64").set_index("kernel")
    assert rows["error_u_max"].isna().all()
    assert set(rows.loc["recentred", "reason"]) == {"exact result is 0; largest computed 0"}
    assert rows.loc["compact", "reason"].str.match(r"exact result is 0; largest computed [1-9]").all()


def test_a_dtype_that_a_kernel_lacks_has_a_reason_and_no_truth_value(narrow):
    rows = eps.run(kernels=[narrow], dtypes=["float16"], **SHAPE)
    assert rows["finite"].isna().all()
    assert set(rows["reason"]) == {"not so narrow"}


@pytest.mark.parametrize("value", [1e-12, 1e-5])
def test_nearly_constant_rows_have_a_variance_of_eps(value):
    x = eps._rows(inputs.generator(1), "nearly_constant", (8, 1000), value, "float64")
    assert x.var() == pytest.approx(value, rel=0.1, abs=0)


def test_the_error_is_that_of_the_worst_row_and_a_result_of_which_a_part_is_0_has_one():
    exact = DoubleDouble(np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 1.0]]), np.zeros((3, 2)))
    found = eps._measured(np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 1.5]]), exact)
    assert found["error_u_max"] > 1e12 and found["reason"] == ""


def test_gamma_varies_and_dy_has_a_mean_of_1(monkeypatch):
    posed = []
    monkeypatch.setattr(eps, "_cell", lambda chosen, problem, keys: posed.append(problem) or [])
    eps.run(kernels=["compact"], dtypes=["float64"], **SHAPE)
    assert len(posed) == 3 * 3
    assert all(problem.dy.mean() == pytest.approx(1, abs=0.1) for problem in posed)
    assert all(problem.gamma.std() == pytest.approx(0.5, abs=0.05) for problem in posed)

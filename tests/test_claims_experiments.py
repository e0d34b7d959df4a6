"""What two claims rest on: the cancellation in dx, and the order of dividing and subtracting."""

import numpy as np
import pytest

from layernorm_backward import inputs, oracle
from layernorm_backward.experiments import cancellation, division_order
from layernorm_backward.problem import draw_aligned

SHAPE = {"spreads": [1.0, 1e-3], "hidden": 256, "rows": 16, "eps": 1e-5, "seed": 1}


@pytest.fixture(scope="module")
def cancelled():
    kernels = ["compact", "numba_fused"]
    return cancellation.run(kernels=kernels, dtypes=["float64", "float32", "float16"], **SHAPE)


def test_an_aligned_gradient_leaves_its_spread_after_projection():
    rng = inputs.generator(1)
    x = rng.standard_normal((8, 512))
    dy = inputs.aligned(rng, x, 1e-3)
    x_hat = (x - x.mean(axis=-1, keepdims=True)) / x.std(axis=-1, keepdims=True)
    rest = dy - dy.mean(axis=-1, keepdims=True) - x_hat * (dy * x_hat).mean(axis=-1, keepdims=True)
    assert np.std(rest) == pytest.approx(1e-3, rel=0.1)
    assert np.sqrt(np.mean(dy * dy)) == pytest.approx(np.sqrt(2.0), rel=0.1)


def test_the_relative_error_grows_as_kappa_g_and_the_absolute_error_does_not(cancelled):
    compact = cancelled[(cancelled["kernel"] == "compact") & (cancelled["dtype"] == "float32")]
    small, large = compact.sort_values("kappa_g").itertuples()
    assert large.kappa_g / small.kappa_g == pytest.approx(1e3, rel=0.3)
    assert large.error_u_median / small.error_u_median == pytest.approx(1e3, rel=0.5)
    assert max(small.absolute_error_u_max, large.absolute_error_u_max) < 8


def test_kappa_g_is_that_of_the_median_row(cancelled):
    rng = inputs.generator(SHAPE["seed"], SHAPE["hidden"])
    x = inputs.rows(rng, SHAPE["rows"], SHAPE["hidden"], np.float64)
    x, gamma, _, dy = draw_aligned(rng, x, 1.0).values()
    dx = oracle.backward(x, gamma, dy, SHAPE["eps"]).dx.hi
    kappa_g = np.linalg.norm(dy, axis=1) / np.linalg.norm(dx, axis=1) / np.sqrt(x.var(1) + SHAPE["eps"])
    told = cancelled[(cancelled["dtype"] == "float64") & (cancelled["spread"] == 1.0)]["kappa_g"]
    assert told.to_numpy() == pytest.approx(np.median(kappa_g), rel=1e-9)


def test_a_dtype_that_a_kernel_does_not_take_has_its_reason(narrow):
    rows = cancellation.run(kernels=[narrow], dtypes=["float16"], **SHAPE)
    assert set(rows["reason"]) == {"not so narrow"}
    assert rows["error_u_max"].isna().all()


def test_each_order_of_division_overflows_where_the_other_does_not():
    table = division_order.run(
        upstreams=["aligned"], stds=[1e-2, 1e2], shares=[0.02, 0.9], hidden=64, rows=16, eps=1e-5, seed=1
    )
    finite = table.set_index(["std", "share", "division"])["finite_rows"]
    assert finite[1e-2, 0.02, "after"] > finite[1e-2, 0.02, "before"] == 0
    assert finite[1e2, 0.9, "before"] == 16 > finite[1e2, 0.9, "after"] == 0
    assert (table["finite_rows"] <= table["representable_rows"]).all()


def test_both_orders_give_the_same_gradient_where_nothing_overflows():
    rng = np.random.default_rng(1)
    dz, x_norm = rng.standard_normal((2, 4, 64))
    std = np.full((4, 1), 3.0)
    np.testing.assert_allclose(division_order.before(dz, x_norm, std), division_order.after(dz, x_norm, std))


def test_rows_count_as_finite_where_float32_can_hold_their_dx_and_each_has_its_share_of_the_largest(
    monkeypatch,
):
    given = []

    def divided(dz, x_norm, std):
        given.append(dz)
        return np.zeros_like(dz)

    monkeypatch.setattr(division_order, "DIVISIONS", {"none": divided})
    (row,) = division_order.run(
        upstreams=["normal"], stds=[0.25], shares=[0.25], hidden=64, rows=64, eps=1e-5, seed=1
    ).to_dict("records")
    largest = np.abs(given[0]).max(axis=-1) / np.finfo(np.float32).max
    assert largest == pytest.approx(np.full(64, 0.25))
    assert 0 < row["finite_rows"] == row["representable_rows"] < 64

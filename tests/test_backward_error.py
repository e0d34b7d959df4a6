"""The sweep over kappa: growth of the error, bounds, and cells that the dtype cannot hold."""

import numpy as np
import pytest

from layernorm_backward.experiments import backward_error
from layernorm_backward.studies import config
from selection import held_row_by_row, select
from workspace import ROOT

SWEEP = {
    "kernels": ["reference", "compact", "overcached", "recentred", "numba_fused"],
    "dtypes": ["float64", "float32", "bfloat16"],
    "kappas": [1.0, 1e2, 1e3, 1e4, 1e6],
    "hidden": 256,
    "hidden_sweep": [7],
    "hidden_kappas": [1e2],
    "upstreams": ["shifted", "normal"],
    "rows": 64,
    "eps": 1e-5,
    "seed": 3,
}


@pytest.fixture(scope="module")
def table():
    return backward_error.run(**SWEEP)


def growth(table, kernel, dtype, quantity):
    """The slope of log(error) against log(kappa) from kappa 1e2 on."""
    rows = select(table, kernel=kernel, dtype=dtype, quantity=quantity, upstream="shifted", hidden=256)
    rows = rows[(rows["kappa"] >= 1e2)]
    return np.polyfit(np.log10(rows["kappa"]), np.log10(rows["error_u_max"]), 1)[0]


@pytest.mark.parametrize("quantity", ["y", "dx", "dgamma"])
@pytest.mark.parametrize("kernel", ["compact", "overcached"])
def test_a_plain_mean_makes_the_error_grow_like_kappa(table, kernel, quantity):
    for dtype in ("float64", "float32"):
        assert growth(table, kernel, dtype, quantity) == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("quantity", ["y", "dx", "dgamma", "dbeta"])
@pytest.mark.parametrize("kernel", ["recentred", "numba_fused"])
def test_a_re_centred_mean_keeps_the_error_flat(table, kernel, quantity):
    rows = select(table, kernel=kernel, quantity=quantity, reason="")
    assert rows["error_u_max"].max() < 16


def test_dbeta_is_free_of_kappa(table):
    rows = select(table, quantity="dbeta", kernel="compact", dtype="float64", hidden=256, upstream="shifted")
    assert len(rows) == 5
    assert rows["error_u_max"].max() < 4


def test_no_error_exceeds_its_bound(table):
    measured = select(table, reason="")
    assert measured["bound_u"].notna().all()
    bounded = measured.dropna(subset=["bound_ratio_max"])
    assert np.isinf(measured.drop(bounded.index)["bound_u"]).all()
    held_row_by_row(bounded, "bound_ratio_max", "error_u_max", "bound_u")
    assert (measured["error_u_median"] <= measured["error_u_max"]).all()


def test_bounds_tell_re_centred_kernels_from_plain_ones(table):
    cell = select(table, quantity="dx", dtype="float64", kappa=1e6, upstream="shifted").set_index("kernel")
    assert cell.loc["compact", "bound_u"] > 1e4 * cell.loc["recentred", "bound_u"]


@pytest.mark.parametrize(
    ("kappa", "reason"), [(1e4, "are constant in bfloat16"), (1e6, "are constant in bfloat16")]
)
def test_rows_that_lose_their_kappa_are_not_measured(table, kappa, reason):
    cells = select(table, dtype="bfloat16", kappa=kappa)
    assert cells["reason"].str.endswith(reason).all()
    assert cells[["error_u_median", "error_u_max", "bound_u"]].isna().all(axis=None)


def test_kappa_that_strays_and_rows_that_overflow_are_named():
    found = backward_error.run(**(SWEEP | {"kernels": ["compact"], "dtypes": ["bfloat16"], "kappas": [3e3]}))
    assert select(found, kappa=3e3)["reason"].str.contains("have kappa .* once rounded to bfloat16").all()
    found = backward_error.run(**(SWEEP | {"kernels": ["compact"], "dtypes": ["float16"], "kappas": [1e6]}))
    assert select(found, kappa=1e6)["reason"].str.contains("overflow in float16").all()


def test_a_dtype_that_a_kernel_lacks_has_the_kernels_reason(narrow):
    found = backward_error.run(**(SWEEP | {"kernels": [narrow], "dtypes": ["float16"]}))
    assert set(select(found, kappa=1.0)["reason"]) == {"not so narrow"}


def test_kappa_g_is_one_where_little_is_projected_away(table):
    normal = select(table, upstream="normal", dtype="float64", hidden=256)["kappa_g"]
    shifted = select(table, upstream="shifted", dtype="float64", hidden=256)["kappa_g"]
    assert normal.to_numpy() == pytest.approx(1.0, abs=0.02)
    assert shifted.to_numpy() == pytest.approx((2.5 / 1.5) ** 0.5, rel=0.05)  # E g^2 = 2.5, E g = 1


def test_the_study_of_the_paper_has_every_decade_of_kappa_at_every_row_length():
    study = config.load(ROOT / "config" / "paper" / "backward_error.yaml", backward_error.run)
    decades = {10.0**power for power in range(8)}
    assert decades <= set(study["kappas"]) and decades <= set(study["hidden_kappas"])

"""What the audit concludes from errors over kappa: their power, their limits and their units."""

import dataclasses

import numpy as np
import pytest

from audit_small import SMALL
from layernorm_backward.audit import sweep
from layernorm_backward.dtypes import dtype_of, unit_roundoff
from layernorm_backward.kernels import KERNELS

HONEST = KERNELS["recentred"]
WIDE_GAMMA = dataclasses.replace(SMALL, gamma_dtype="float32")  # beside 16-bit x


@pytest.mark.parametrize(("power", "expected"), [(1.0, 1.0), (2.0, 2.0), (0.0, 0.0)])
def test_the_power_of_kappa_is_that_of_what_stands_clear_of_floor_and_loss(power, expected):
    kappas = np.geomspace(1, 1e6, 13)
    errors = np.minimum(2 + 0.1 * kappas**power, 1e7)
    slope, low, high = sweep.growth(kappas, errors, 2.0**-24)
    assert slope == pytest.approx(expected, abs=0.1)
    assert low <= slope <= high


def test_as_many_errors_as_give_a_slope_are_taken_without_those_that_have_not_begun_to_grow():
    errors = np.array([1, 1, 1, 1, 10, 100, 1e3, 1e4])
    assert sweep.growth(10.0 ** np.arange(8), errors, 2.0**-24)[0] == pytest.approx(1.0)


@pytest.mark.parametrize(("last", "passed"), [(7.0, True), (9.0, False)])
def test_errors_that_stay_below_their_limit_may_grow(last, passed):
    kappas, errors = 10.0 ** np.arange(6), np.array([0.1, 0.1, 0.5, 1.0, 3.0, last])
    (found,) = (
        it for it in sweep._of_quantity("dx", kappas, errors, 2.0**-24, SMALL) if "slope" in it.property
    )
    assert found.value > SMALL.slope_limit and found.passed is passed


def test_errors_of_sums_are_in_u_of_gamma(monkeypatch):
    seen = {}
    monkeypatch.setattr(sweep, "_of_quantity", lambda name, *given: seen.update({name: given[2]}) or [])
    assert list(sweep.findings(HONEST, "bfloat16", WIDE_GAMMA, lambda text: None)) == []
    narrow, wide = (unit_roundoff(dtype_of(name)) for name in ("bfloat16", "float32"))
    assert seen == {"y": narrow, "dx": narrow, "dgamma": wide, "dbeta": wide}


def test_too_few_errors_give_no_power():
    assert np.isnan(
        sweep.growth(np.geomspace(1, 100, 5), np.array([1, 1e3, np.inf, np.inf, 1e9]), 2.0**-8)
    ).all()


def test_the_shortest_rows_that_can_be_audited_are_told():
    assert dataclasses.replace(SMALL, hidden=16).hidden == 16
    with pytest.raises(ValueError, match="hidden is 15; allowed: at least 16"):
        dataclasses.replace(SMALL, hidden=15)


def test_the_kappa_told_is_that_up_to_which_every_error_is_small():
    kappas, errors = np.array([1.0, 10.0, 100.0, 1e3]), np.array([1.0, 8.0, 9.0, 1.0])
    (found,) = (
        it for it in sweep._of_quantity("dx", kappas, errors, 2.0**-24, SMALL) if "kappa" in it.property
    )
    assert (found.value, found.limit, found.passed) == (10.0, 1e3, False)


@pytest.mark.parametrize(("dtype", "limit"), [("float32", 100.0), ("bfloat16", SMALL.limit_u)])
def test_a_sum_may_be_off_by_the_root_of_its_rows_unless_it_is_in_16_bits(dtype, limit):
    assert SMALL.sum_limit_u(10_000, dtype) == limit

"""What rounding the input loses is kept apart from what an algorithm adds."""

from fractions import Fraction

import numpy as np
import pytest

from layernorm_backward import inputs
from layernorm_backward.dtypes import round_to, unit_roundoff
from layernorm_backward.experiments import representation
from selection import select

SWEEP = {
    "algorithms": ["naive", "welford", "two_pass", "two_pass_corrected", "recentred"],
    "dtypes": ["float64", "float32", "float16", "bfloat16"],
    "upstreams": {"ladder": ["shifted"], "integers": ["shifted"], "gaussian": ["shifted", "correlated"]},
    "offsets": [0.0, 1e2, 1e4, 1e6, 1e8, 1e14],
    "hidden": 256,
    "rows": 8,
    "eps": 1e-5,
    "seed": 4,
}


@pytest.fixture(scope="module")
def table():
    return representation.run(**SWEEP)


def test_the_representation_error_of_the_variance_is_the_rational_one(table):
    """The real variance of offset + deviations is that of the deviations, in exact arithmetic."""
    rng = inputs.generator(4, 1, 256)
    deviations = rng.standard_normal((8, 256))
    rounded = round_to(1e4 + deviations, np.float32)

    def variance(row):
        exact = [Fraction(float(value)) for value in row]
        mean = sum(exact) / len(exact)
        return sum((value - mean) ** 2 for value in exact) / len(exact)

    moved = max(abs(variance(a) / variance(b) - 1) for a, b in zip(rounded, deviations, strict=True))
    cells = select(table, dtype="float32", data="gaussian", offset=1e4, quantity="variance")
    assert cells["representation_error"].to_numpy() == pytest.approx(float(moved), rel=1e-9)


def test_the_representation_error_is_the_same_for_every_algorithm_and_accumulator(table):
    measured = table[table["representable"]]
    keys = ["data", "upstream", "dtype", "offset", "quantity"]
    assert (measured.groupby(keys)["representation_error"].nunique() == 1).all()


def test_data_that_the_dtype_holds_have_no_representation_error(table):
    for data in ("ladder", "integers"):
        exact = select(table, data=data, dtype="float64")["representation_error"]
        assert (exact == 0).all()
    assert (select(table, data="gaussian", dtype="float64", offset=0.0)["representation_error"] == 0).all()
    assert (select(table, data="gaussian", dtype="float64", offset=1e6)["representation_error"] > 0).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("upstream", ["shifted", "correlated"])
def test_rounding_the_row_moves_dx_in_proportion_to_the_offset(table, dtype, upstream):
    cells = select(
        table, data="gaussian", dtype=dtype, upstream=upstream, quantity="dx", algorithm="recentred"
    )
    cells = cells[(cells["offset"] >= 100) & cells["representable"]]
    slope = np.polyfit(np.log(cells["offset"]), np.log(cells["representation_error"]), 1)[0]
    assert slope == pytest.approx(1, abs=0.15)


def test_re_centred_adds_a_few_roundoffs_to_dx_at_every_offset(table):
    for dtype in ("float64", "float32"):
        cells = select(table, algorithm="recentred", dtype=dtype, quantity="dx", data="gaussian")
        assert cells["error_max"].max() < 8 * unit_roundoff(dtype)


def test_two_pass_adds_more_to_dx_than_the_rounding_did_and_nothing_to_the_variance(table):
    cells = select(table, algorithm="two_pass", dtype="float32", data="gaussian", offset=1e4)
    dx = select(cells, quantity="dx")
    assert (dx["error_max"] > dx["representation_error"]).all()
    assert (select(cells, quantity="variance")["error_max"] < 1e-5).all()


def test_two_pass_errs_on_rows_that_were_exact(table):
    cells = select(table, algorithm="two_pass", dtype="float32", data="integers", offset=1e6, quantity="dx")
    assert cells["representation_error"].item() == 0
    assert cells["error_max"].item() > 1e-4


@pytest.mark.parametrize(
    ("dtype", "offset", "distinct", "reason"),
    [
        ("float32", 1e8, 1, "8 of 8 rows are constant in float32"),
        ("float16", 1e4, 1, "8 of 8 rows are constant in float16"),
        ("float16", 1e6, 1, "8 of 8 rows overflow in float16"),
        ("bfloat16", 1e4, 1, "8 of 8 rows are constant in bfloat16"),
    ],
)
def test_a_row_that_cannot_be_held_is_neither_passed_nor_failed(table, dtype, offset, distinct, reason):
    cells = select(table, data="ladder", dtype=dtype, offset=offset)
    assert not cells["representable"].any()
    assert set(cells["distinct_values"]) == {distinct}
    assert cells[["error_max", "representation_error", "kappa"]].isna().all(axis=None)
    assert set(cells["reason"]) == {reason}


def test_an_overflowing_sum_is_infinitely_wrong_and_not_missing(table):
    cells = select(table, algorithm="naive", dtype="float16", accumulator="storage", data="integers")
    assert select(cells, offset=100.0, quantity="variance")["error_max"].item() == np.inf

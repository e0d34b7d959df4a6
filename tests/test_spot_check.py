"""Checks of a part of a large gradient: elements as often as counting says, rows and directions always."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from layernorm_backward.experiments import spot_check
from layernorm_backward.gradient_check import METHODS, adequate, compare
from layernorm_backward.gradient_check.checker import EPS, gradients
from layernorm_backward.gradient_check.mutants import CORRECT, LOCAL, MUTANTS, kernel
from layernorm_backward.records.schemas import SCHEMAS

SHAPE = (4, 8, 16)
ALL = 4 * 8 * 16


@cache
def measured() -> pd.DataFrame:
    return spot_check.run(
        shape=SHAPE, elements=[8, ALL], rows=4, directions=2, samples=40, method="central6", seed=3
    )


def of(check: str, drawn: int) -> pd.DataFrame:
    table = measured()
    return table[(table["check"] == check) & (table["drawn"] == drawn)].set_index("mutant")


def setting(method: str = "central6") -> compare.Setting:
    forward = kernel(CORRECT).forward
    way = METHODS[method]
    return compare.Setting(
        compare.outputs(forward, EPS, way), adequate(SHAPE, EPS, 3, "float64"), EPS, way, None
    )


def test_the_table_has_a_row_for_each_fault_and_check():
    schema = SCHEMAS["spot_check"]
    assert list(measured().columns) == list(schema.columns)
    assert not measured().duplicated(list(schema.keys)).any()
    assert len(measured()) == 3 * (1 + len(MUTANTS) + len(LOCAL))


def test_elements_show_local_faults_as_often_as_counting_says():
    few = of("elements", 8)
    assert few.loc[list(MUTANTS), "caught"].all()
    assert few.loc["dgamma of the last column left out", "expected_share"] == pytest.approx(8 / 16)
    assert few.loc["one element of dx left out", "expected_share"] == pytest.approx(8 / ALL)
    for name in LOCAL:
        share = few.loc[name, "expected_share"]
        spread = 4 * np.sqrt(40 * share * (1 - share))  # four deviations of the binomial distribution
        assert abs(few.loc[name, "caught_samples"] - 40 * share) <= spread + 1


def test_all_elements_and_rows_with_directions_show_every_fault_and_never_the_right_kernel():
    for its in (of("elements", ALL), of("rows and directions", 4)):
        assert its.loc[[*MUTANTS, *LOCAL], "caught"].all()
        assert its.loc[CORRECT, "caught_samples"] == 0
    assert of("rows and directions", 4)["expected_share"].isna().all()


@pytest.mark.parametrize(
    ("name", "few"), [("dx of the last row left out", 16), ("one element of dx left out", 1)]
)
def test_a_local_fault_spoils_what_it_says(name, few):
    assert of("elements", 8).loc[name, "wrong_share"] == few / ALL
    assert of("elements", 8).loc[CORRECT, "wrong_share"] == 0


@pytest.mark.parametrize("method", ["central2", "central6", "complex_step"])
def test_elements_have_the_slopes_of_a_full_check(method):
    at, rng = setting(method), np.random.default_rng(0)
    right = gradients(kernel(CORRECT).forward, kernel(CORRECT).backward, at.point, EPS)
    full = {one.quantity: one.numeric.reshape(-1, SHAPE[-1]) for one in compare.full(at, right)}
    for spot in compare.some_elements(at, 30, rng):
        expected = full[spot.name][spot.index]
        assert np.abs(spot.numeric - expected).max() <= 0.1 * spot.tolerance.max()
        assert not any(part.failed.any() for part in compare.with_spots([spot], right))

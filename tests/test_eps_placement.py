"""Where eps stands: each placement's gradient is that of its own function, and changes dx as predicted."""

import numpy as np
import pytest

from layernorm_backward import oracle
from layernorm_backward.experiments import eps_placement
from layernorm_backward.experiments.eps_placement import Data, evaluate
from selection import select

SWEEP = {
    "dtypes": ["float32", "float16"],
    "eps": [1e-8, 1e-7, 1e-5],
    "variances": [0.0, 1e-8, 1e-5, 4e-4, 6e-4, 1e-2, 1.0],
    "upstreams": ["normal", "shifted", "correlated", "aligned"],
    "spread": 1e-2,
    "rows": 16,
    "hidden": 256,
    "seed": 1,
}


@pytest.fixture(scope="module")
def table():
    return eps_placement.run(**SWEEP)


def data(variance=0.01, hidden=12):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, hidden)) * np.sqrt(variance)
    return x, eps_placement._data(x, 1 + rng.standard_normal((2, hidden)))


@pytest.mark.parametrize("placement", eps_placement.PLACEMENTS)
def test_each_placement_has_the_gradient_of_its_own_function(placement):
    x, one = data()
    dx = evaluate(placement, one, 0.02).dx

    def loss(x):
        return np.sum(one.dy * evaluate(placement, eps_placement._data(x, one.dy), 0.02).x_hat)

    step = 1e-6
    for index in np.ndindex(x.shape):
        shift = np.zeros_like(x)
        shift[index] = step
        assert (loss(x + shift) - loss(x - shift)) / (2 * step) == pytest.approx(dx[index], abs=1e-6)


def test_inside_is_what_the_oracle_computes():
    x, one = data(variance=1e-5)
    exact = oracle.backward(x, np.ones(12), one.dy, 1e-5)
    found = evaluate("inside", one, 1e-5)
    assert found.dx == pytest.approx(exact.dx.hi, rel=1e-11)
    assert found.dgamma[0] == pytest.approx(exact.dgamma.hi, rel=1e-11)


def test_a_change_of_one_percent_begins_at_fifty_eps(table):
    usual = table[table["upstream"].isin(["normal", "shifted"])]
    usual = select(usual, placement="inside", eps=1e-5)
    assert (usual[usual["variance"].between(1e-9, 4e-4)]["dx_change"] > 0.01).all()
    assert (usual[usual["variance"] >= 6e-4]["dx_change"] < 0.01).all()


def test_the_change_is_what_the_law_says_and_larger_along_x_hat(table):
    small = table[(table["placement"] == "inside") & (table["eps_share"] < 0.01)]
    assert small["dx_change"].to_numpy() == pytest.approx(small["dx_first_order"].to_numpy(), rel=0.05)
    cell = select(small, dtype="float32", eps=1e-5, variance=1.0).set_index("upstream")["dx_change"]
    assert cell["aligned"] > 100 * cell["normal"]


def test_the_law_is_exact_in_the_limit_of_a_small_share():
    _, one = data(hidden=50)
    before, after = evaluate("none", one, 0.0), evaluate("inside", one, 1e-8)
    change = np.linalg.norm(after.dx - before.dx, axis=-1) / np.linalg.norm(before.dx, axis=-1)
    for row, measured in enumerate(change):
        single = Data(*(part[row : row + 1] for part in one))
        law = eps_placement._first_order(single, before.x_hat[row : row + 1], 1e-8)
        assert measured == pytest.approx(law, rel=1e-5)


def test_outside_barely_differs_from_no_eps_at_usual_variance(table):
    cell = select(table, dtype="float32", upstream="shifted", eps=1e-5, variance=1e-5)
    cell = cell.set_index("placement")
    assert cell.loc["outside", "dx_change"] < 0.01 < 0.1 < cell.loc["inside", "dx_change"]
    assert cell.loc["none", "dx_change"] == 0 == cell.loc["inside", "dx_from_inside"]


def test_float16_loses_eps_up_to_half_of_its_smallest_number(table):
    used = select(table, dtype="float16", placement="stored").groupby("eps")["eps_used"].first()
    assert used[1e-8] == 0
    assert used[1e-7] == 2**-23
    half = eps_placement.run(**(SWEEP | {"eps": [2.0**-25, 2.0**-25 * 1.001], "dtypes": ["float16"]}))
    used = select(half, placement="stored").groupby("eps")["eps_used"].first()
    assert used.tolist() == [0, 2**-24]


def test_only_inside_leaves_constant_rows_a_gradient(table):
    constant = select(table, variance=0.0, dtype="float32").groupby("placement")["finite"].unique()
    assert {name: list(values) for name, values in constant.items()} == {
        "inside": [True],
        "stored": [True],
        "outside": [False],
        "none": [False],
    }
    assert constant.notna().all()


def test_dx_of_a_constant_row_is_as_large_as_eps_is_small(table):
    gain = select(table, variance=0.0, dtype="float32", placement="inside", upstream="normal")
    gain = gain.set_index("eps")["dx_gain"]
    assert gain[1e-5] == pytest.approx(1e5**0.5, rel=0.02)
    assert gain[1e-8] == pytest.approx(1e4, rel=0.02)


def test_dx_beyond_the_largest_float16_is_not_finite(table):
    cells = select(table, dtype="float16", variance=1e-8, upstream="shifted", eps=1e-8)
    assert cells["finite"].all()
    small = eps_placement.run(**(SWEEP | {"eps": [1e-12], "variances": [0.0], "dtypes": ["float16"]}))
    assert not select(small, placement="inside", upstream="normal")["finite"].any()


def test_the_gain_told_is_that_of_the_row_with_the_largest():
    _, one = data(hidden=50)
    cells = eps_placement._cell(one, {"dtype": "float64", "eps": 1e-5})
    gains = np.linalg.norm(evaluate("inside", one, 1e-5).dx, axis=1) / np.linalg.norm(one.dy, axis=1)
    (told,) = (cell["dx_gain"] for cell in cells if cell["placement"] == "inside")
    assert told == pytest.approx(gains.max(), rel=1e-12) and gains.min() < 0.99 * told


def test_a_change_from_inside_is_relative_to_inside():
    _, one = data(variance=1e-5, hidden=50)
    cells = eps_placement._cell(one, {"dtype": "float64", "eps": 1e-5})
    inside, none = evaluate("inside", one, 1e-5).dx, evaluate("none", one, 0.0).dx
    changes = np.linalg.norm(none - inside, axis=1) / np.linalg.norm(inside, axis=1)
    (told,) = (cell["dx_from_inside"] for cell in cells if cell["placement"] == "none")
    assert told == pytest.approx(np.median(changes), rel=1e-12)

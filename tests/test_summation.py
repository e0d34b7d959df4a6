"""Orders of summation: what each adds, where it stops, and how its error grows with the rows."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from layernorm_backward import inputs, oracle
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.errors import rel_error
from layernorm_backward.experiments import _orders, summation
from layernorm_backward.experiments._orders import ORDERS, summations
from layernorm_backward.kernels import KERNELS
from layernorm_backward.kernels.numba_plan import block, chunks
from layernorm_backward.sums import chunked_depth, chunked_sum, compensated_tree, running_sum
from layernorm_backward.theory.kernel_bounds import MODELS
from selection import select

NUMPY = ("reference", "compact", "overcached", "recentred", "numpy_blocked")
SWEEP = {
    "schemes": list(ORDERS),
    "kernels": ["compact", "recentred", "numba_fused"],
    "accumulators": {"float32": ["storage", "float64"], "float16": ["float64"], "bfloat16": ["storage"]},
    "upstreams": {"shifted": ["dbeta", "dgamma"], "ones": ["dbeta"]},
    "rows": [10, 100, 300, 1000, 3000, 10000],
    "seeds": [2] * 6,
    "ones_rows": 3000,
    "reversed_rows": 300,
    "eps": 1e-5,
    "seed": 1,
}


@pytest.fixture(scope="module")
def table():
    return summation.run(**SWEEP)


def normal(count, dtype, columns=4, seed=0):
    return np.random.default_rng(seed).standard_normal((columns, count)).astype(dtype_of(dtype))


def test_only_kernels_that_add_rows_in_one_of_the_orders_have_its_bound():
    found = {name: _orders._order_of(name) for name in MODELS}
    known = {name: order for name, order in found.items() if not np.isnan(order.bound(100, 2.0**-24))}
    running = dict.fromkeys(("reference", "compact", "overcached", "recentred"), ORDERS["running"])
    assert known == running | {"numba_fused": ORDERS["chunked"]}  # numpy_blocked adds groups in pairs


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_a_running_sum_adds_one_term_after_the_other(dtype):
    terms = normal(300, dtype)
    total = np.zeros(4, terms.dtype)
    for term in terms.T:
        total = total + term
    assert np.array_equal(running_sum(terms), total)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_numpy_sums_rows_of_an_array_as_a_running_sum(dtype):
    terms = normal(1000, dtype)
    assert np.array_equal(np.ascontiguousarray(terms.T).sum(axis=0), running_sum(terms))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_chunked_sum_is_that_of_the_fused_kernel_to_the_last_bit(dtype):
    x = normal(8, dtype, columns=60005)
    gamma = np.ones(8, x.dtype)
    _, saved = KERNELS["numba_fused"].forward(x, gamma, gamma, 1e-5)
    dbeta = KERNELS["numba_fused"].backward(x + 1, saved)[2]
    terms = np.ascontiguousarray((x + 1).T)
    cut = chunks(*x.shape), block(*x.shape)
    assert np.array_equal(chunked_sum(terms, *cut), dbeta)
    assert not np.array_equal(chunked_sum(terms, 3, cut[1]), dbeta)
    assert not np.array_equal(chunked_sum(terms, cut[0], cut[1] + 4), dbeta)


def test_the_depth_of_a_chunked_sum_is_that_of_block_chunk_and_tree():
    assert chunked_depth(16, 1, 16) == 15
    assert chunked_depth(33, 1, 16) == 15 + 2
    assert chunked_depth(32, 2, 16) == 15 + 1
    assert chunked_depth(3904 * 256, 256, 16) == 15 + 8 + 8


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_tree_and_errors_of_a_compensated_sum_are_the_exact_sum(dtype):
    terms = normal(1000, dtype)
    terms[:, ::2] *= terms.dtype.type(1e6)
    for row, total, lost in zip(terms, *compensated_tree(terms), strict=True):
        exact = sum(Fraction(float(term)) for term in row)
        size = sum(abs(Fraction(float(term))) for term in row)
        found = Fraction(float(total)) + Fraction(float(lost))
        assert abs(found - exact) <= size * Fraction(10 * float(np.finfo(terms.dtype).eps)) ** 2
        assert Fraction(float(total)) != exact


@pytest.mark.parametrize(("dtype", "stop"), [("bfloat16", 256), ("float16", 2048)])
def test_a_running_sum_of_ones_stands_still_where_one_more_rounds_away(dtype, stop):
    ones = np.ones((1, 2 * stop), dtype_of(dtype))
    assert running_sum(ones[:, :stop]) == stop
    assert running_sum(ones) == stop


def test_the_exact_sums_of_a_cell_are_those_of_the_oracle():
    keys = {"dtype": "float32", "upstream": "shifted", "rows": 50}
    cell = summation._cell(inputs.generator(1, 2), keys, ["dbeta", "dgamma"], 1e-5)
    x, dy = inputs.values(cell.x), inputs.values(cell.dy)
    exact = oracle.backward(x, np.ones(8), dy, 1e-5)
    for quantity, wanted in (("dbeta", exact.dbeta), ("dgamma", exact.dgamma)):
        found = cell.exact[quantity].total
        assert rel_error(found.hi, wanted) < 1e-15
        assert np.abs((found - wanted).hi).max() < 1e-28 * np.abs(cell.exact[quantity].size).max()


def test_no_error_exceeds_its_bound(table):
    measured = select(table, reason="")
    assert (measured["bound_ratio_max"] <= 1).all()
    assert measured["bound_ratio_max"].max() > 0.5  # the bounds are of the right size


@pytest.mark.parametrize(("storage", "narrow"), [("bfloat16", True), ("float32", False)])
def test_the_rounding_of_x_hat_is_bounded_where_the_theory_of_kernels_has_it(storage, narrow):
    found = {way.scheme: way.x_hat_u > 0 for way in summations([], list(NUMPY), storage, [])}
    assert found == {f"kernel:{name}": narrow and MODELS[name].rounds_x_hat for name in NUMPY}


def test_a_kernel_that_the_theory_does_not_know_has_no_bound(monkeypatch):
    monkeypatch.setattr(_orders, "KERNELS", {"mine": replace(KERNELS["recentred"], name="mine")})
    small = {"schemes": [], "kernels": ["mine"], "rows": [10], "seeds": [1]}
    found = summation.run(**SWEEP | small)
    assert (found["rel_error_max"] >= 0).all()
    assert found[["bound", "bound_ratio_max"]].isna().all(axis=None)


def test_a_running_sum_loses_and_a_tree_does_not(table):
    float32 = select(table, dtype="float32", accumulator="storage", upstream="shifted", quantity="dbeta")
    growth = float32.groupby("scheme")["growth"].first()
    assert growth["running"] == pytest.approx(0.5, abs=0.2)
    assert abs(growth[["pairwise", "chunked", "compensated"]]).max() < 0.3


def test_numpy_kernels_sum_as_the_running_sum_does(table):
    cells = select(table, dtype="float32", accumulator="storage", upstream="shifted", quantity="dbeta")
    errors = cells.pivot(index="rows", columns="scheme", values="rel_error_max")
    for kernel in ("kernel:compact", "kernel:recentred"):
        assert (errors[kernel] == errors["running"]).all()
    assert (errors["kernel:numba_fused"].iloc[-1]) < errors["running"].iloc[-1] / 4


def test_sums_in_float64_of_float16_gradients_are_exact_in_any_order(table):
    cells = select(table, dtype="float16", accumulator="float64", quantity="dbeta")
    assert (cells["exact_share"] == 1).all()
    assert (cells["order_change"].dropna() == 0).all()
    changed = select(table, dtype="float32", accumulator="storage", scheme="running", upstream="shifted")
    assert changed["order_change"].max() > 0


def test_bfloat16_sums_stop_and_their_error_says_so(table):
    ones = select(table, dtype="bfloat16", accumulator="storage", scheme="running", upstream="ones")
    reached = (ones["computed_share_median"] * ones["rows"]).tolist()
    assert reached == pytest.approx([10, 100, 256, 256, 256])
    assert ones["rel_error_median"].iloc[-1] == pytest.approx(1 - 256 / 3000)


def test_sums_beyond_the_largest_float16_are_not_measured():
    sweep = SWEEP | {"accumulators": {"float16": ["storage"]}, "rows": [70000], "seeds": [1], "kernels": []}
    found = summation.run(**(sweep | {"upstreams": {"shifted": ["dbeta"]}}))
    tree = select(found, scheme="pairwise")
    assert tree["reason"].item() == "8 of 8 sums overflow"
    assert tree["rel_error_median"].isna().all()
    assert select(found, scheme="running")["reason"].item() == ""


def test_the_change_in_reverse_order_is_reported_up_to_so_many_rows_and_those_too(table):
    reversed_rows = select(table, reason="")["order_change"].notna()
    assert set(table.loc[reversed_rows[reversed_rows].index, "rows"]) == {10, 100, 300}
    assert (select(table, reason="")[~reversed_rows]["rows"] > 300).all()


def test_over_the_sums_of_a_cell_the_median_or_the_largest_is_reported():
    sums = ([0.0, 1.0, 4.0], [0.0, 2.0, 9.0], [1.0, 3.0, 11.0], [1.0, 5.0, 10.0], [8.0, 4.0, 8.0])
    assert summation._summary(summation.Sample(*map(np.array, sums))) == {
        "sums": 3,
        "rel_error_median": 1.0,
        "rel_error_max": 4.0,
        "computed_share_median": 3.0,
        "condition_median": 5.0,
        "bound": 8.0,
        "bound_ratio_max": 0.5,
        "exact_share": 1 / 3,
        "order_change": 9.0,
    }

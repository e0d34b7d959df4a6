"""What decisions of numba_fused cost: against the default, of right results only, bits and errors beside."""

import time
from itertools import product
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from numba import get_num_threads

import planned_samples
from layernorm_backward import stopwatch
from layernorm_backward.directions import DIRECTIONS
from layernorm_backward.experiments import _variant_cells, _variants, kernel_costs
from layernorm_backward.experiments import _variant_checks as check
from layernorm_backward.experiments._variant_cells import Cell
from layernorm_backward.experiments._variants import Shape, Variant, plans
from layernorm_backward.kernels import numba_calls, numba_fused, numba_plan, numba_tuning
from layernorm_backward.kernels.numba_calls import Code
from layernorm_backward.timing.pool import buffers
from layernorm_backward.timing.timed import most_threads

SWEEP = planned_samples.SWEEP | {"threads": ["all"]}
ARGUMENTS = {
    "variants": ["no_recentring", "sums_per_thread", "ordinary_stores", "streaming_stores", "no_prefetch"],
    "sweeps": [SWEEP],
    "kappas": {"float32": 1e6, "bfloat16": 1e6},
    "repeats": 2,
    "at_least": 2,
    "paid_at_least": 2,
    "budget_s": 0.0,
    "error_rows": 3,
    "error_limit_u": 100.0,
    "bit_rows": 70,
    "seed": 2,
}
BACKWARD = numba_fused.backward


@pytest.fixture(autouse=True)
def beforehand(monkeypatch):
    """The codes that a run has compiled side by side; here each is compiled when it is called."""
    codes = set()
    monkeypatch.setattr(kernel_costs, "compile_codes", codes.update)
    return codes


@pytest.fixture(autouse=True)
def rows_to_prefetch(monkeypatch):
    planned_samples.single_short_rows(monkeypatch)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_all_code_that_a_run_calls_was_compiled_before(direction, beforehand, monkeypatch):
    """Rows of a large mean are more than those of the cell here, and do not stay in the cache with others."""
    called, compiled = set(), Code.compiled
    monkeypatch.setattr(Code, "compiled", lambda code: called.add(code) or compiled(code))
    monkeypatch.setattr(numba_plan, "_chosen", numba_plan._chosen.__wrapped__)
    monkeypatch.setattr(numba_plan, "cache_resident", lambda size, threads, direction: size > 100_000)
    monkeypatch.setattr(numba_fused, "cached_call", numba_calls.cached_call.__wrapped__)
    numba_calls.call.cache_clear()
    check.errors_at.cache_clear()
    by_variant(sweeps=[SWEEP | {"directions": [direction], "hidden": [1024]}])
    monkeypatch.undo()
    numba_calls.call.cache_clear()
    assert {code for code in called if code.direction == direction} == beforehand
    assert {code.recentre for code in beforehand} == ({True} if direction == "forward" else {True, False})
    assert not any(code.ragged for code in beforehand)


def by_variant(**changed):
    found, samples = kernel_costs.run(**ARGUMENTS | changed)
    return found.set_index("variant"), samples


def planted(monkeypatch, fault):
    """numba_fused with `fault(results, dy)` done to whatever the plan without prefetch computes."""

    def backward(dy, saved, out=None, plan=None):
        results = BACKWARD(dy, saved, out, plan)
        if plan.ahead == 0:
            fault(results, dy)
        return results

    monkeypatch.setattr(numba_fused, "backward", backward)


@pytest.fixture(scope="module")
def measured():
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(numba_plan, "GRAIN", 1)  # so that all threads work on what is little
        return by_variant(sweeps=[SWEEP, SWEEP | {"directions": ["forward"]}])


def test_what_results_that_are_right_cost_has_repetitions_of_its_own():
    """The others are timed no longer than their budget allows."""
    found, samples = by_variant(repeats=9, at_least=2, paid_at_least=9)
    paid, timed = {"default", "again", *_variants.PAID}, samples["name"].value_counts().to_dict()
    assert timed == {name: 9 if name in paid else 2 for name in timed}
    assert paid < set(timed) == {"again", *found.index[found["repeats"] > 0]}


def test_the_noise_of_a_variant_is_that_of_its_own_repetitions():
    """The first two of four hold a default that differs from itself; one variant has no others."""
    seconds = {"default": [1, 1, 1, 1], "again": [1.5, 1.5, 1, 1], "paid": [1, 1, 1, 1], "other": [1, 1]}
    rows = [(name, repeat, its) for name, all_of in seconds.items() for repeat, its in enumerate(all_of)]
    samples = pd.DataFrame(rows, columns=["name", "repeat", "seconds"]).assign(waited=False)
    costs = _variant_cells._costs(samples, ["paid", "other"])
    assert costs["other"]["noise"] > costs["paid"]["noise"] > 0


def test_the_cost_is_the_time_of_the_default_over_that_of_the_variant_less_one(monkeypatch):
    _, samples = by_variant(variants=["no_prefetch"], repeats=6, at_least=6)
    seconds = {"default": 3.0, "no_prefetch": 2.0, "again": 3.03}
    samples = samples.drop(columns=list(Cell._fields))
    samples = samples.assign(seconds=samples["name"].map(seconds), waited=False)
    monkeypatch.setattr(stopwatch, "compare", lambda *_, **__: samples)
    found, _ = by_variant(variants=["no_prefetch"])
    assert found["cost"].to_dict() == {"default": 0, "no_prefetch": pytest.approx(0.5)}
    assert found.loc["no_prefetch", "noise"] == pytest.approx(1 / 101)
    assert found.loc["no_prefetch", "differs"] and not found.loc["default", "differs"]


def test_a_decision_that_saves_time_has_a_negative_cost(naps, monkeypatch):
    planted(monkeypatch, lambda results, dy: time.sleep(10.0))
    found, _ = by_variant(repeats=3, at_least=3)
    assert found.loc["no_prefetch", "cost"] < -0.2


def test_a_variant_that_is_the_default_is_not_measured(measured):
    found, samples = measured
    for direction in ("forward", "backward"):
        part = found[found["direction"] == direction]
        assert part.loc["ordinary_stores", "reason"] == "the default does so"
        names = set(samples.loc[samples["direction"] == direction, "name"])
        assert names == set(part.index[part["reason"] == ""]) | {"again"}
    forward = found[found["direction"] == "forward"]
    assert forward.loc["sums_per_thread", "reason"] == "the forward pass has no sums over rows"


@pytest.mark.parametrize("result", [0, 1, 2], ids=["dx", "dgamma", "dbeta"])
def test_a_variant_with_wrong_results_is_not_timed(monkeypatch, result):
    planted(monkeypatch, lambda results, dy: results[result].__imul__(np.float32(1.001)))
    found, samples = by_variant()
    assert found.loc["no_prefetch", "reason"].startswith("wrong: ")
    assert "no_prefetch" not in set(samples["name"])
    assert found.loc["no_recentring", "cost"] > -1


def test_a_variant_that_writes_nothing_does_not_pass_with_what_another_wrote(monkeypatch):
    def backward(dy, saved, out=None, plan=None):
        idle = plan.ahead == 0 and out is not None
        return out if idle else BACKWARD(dy, saved, out, plan)

    monkeypatch.setattr(numba_fused, "backward", backward)
    assert by_variant()[0].loc["no_prefetch", "reason"].startswith("wrong: inf u")


def test_where_the_default_is_wrong_nothing_is_timed(monkeypatch):
    def backward(dy, saved, out=None, plan=None):
        results = BACKWARD(dy, saved, out, plan)
        if plan.ahead and plan.recentre and not plan.stream:
            results[0][...] *= np.float32(1.001)
        return results

    monkeypatch.setattr(numba_fused, "backward", backward)
    found, samples = by_variant()
    assert samples.empty and found["cost"].isna().all()
    assert found.loc["no_prefetch", "reason"] and found.loc["default", "reason"].startswith("wrong")


def test_bits_do_not_depend_on_threads_stores_or_prefetch(measured):
    equal = measured[0].groupby(level=0)["bits_equal"].all()
    assert equal[["default", "no_prefetch"]].all()
    assert not equal["sums_per_thread"]


@pytest.mark.parametrize("hidden", [8, 48])
def test_bits_are_compared_on_as_many_rows_as_make_all_threads_work(hidden, monkeypatch):
    arrays = buffers((most_threads() * numba_plan.GRAIN // (4 * hidden) + 9, hidden), "float32", seed=1)
    found, tasks = [], numba_plan.tasks
    monkeypatch.setattr(numba_plan, "tasks", lambda *of: found.append(tasks(*of)) or found[-1])
    check.agreements("backward", arrays, 1, {"default": numba_plan.choose(*arrays.x.shape, arrays.x.dtype)})
    assert max(found) == most_threads()


@pytest.mark.parametrize("result", [0, 1])
def test_one_different_bit_with_all_threads_is_detected(monkeypatch, result):
    def flip(results, dy):
        if get_num_threads() == most_threads():
            results[result].reshape(-1).view(np.uint32)[-1] ^= 1

    planted(monkeypatch, flip)
    found, _ = by_variant()
    assert not found.loc["no_prefetch", "bits_equal"] and found.loc["no_prefetch", "reason"] == ""
    assert found.loc["default", "bits_equal"]


def test_recentring_is_what_keeps_the_error_small_at_large_kappa(measured):
    found, _ = measured
    found = found[found["direction"] == "backward"]
    assert found.loc["default", "kappa_error_u_max"] < 4
    assert found.loc["no_recentring", "kappa_error_u_max"] > 1e3
    assert found.loc["no_recentring", "error_u_max"] < 10


def test_a_dtype_without_rows_of_the_kappa_has_no_error_there():
    found, _ = by_variant(sweeps=[SWEEP | {"dtypes": ["bfloat16"]}], variants=["no_prefetch"])
    assert found["kappa_error_u_max"].isna().all() and (found["error_u_max"] < 2).all()


def test_a_cell_named_twice_is_measured_once():
    found, _ = by_variant(sweeps=[SWEEP, SWEEP], variants=["no_prefetch"])
    assert found.index.tolist() == ["default", "no_prefetch"]


def test_a_sweep_leaves_variants_out_and_a_cell_has_those_that_one_of_its_sweeps_keeps():
    wide = SWEEP | {"dtypes": ["bfloat16"]}
    found, _ = by_variant(sweeps=[SWEEP, wide | {"without": ["no_prefetch", "ordinary_stores"]}])
    of_dtype = {dtype: set(rows.index) for dtype, rows in found.groupby("dtype")}
    every = {"default", *ARGUMENTS["variants"]}
    assert of_dtype == {"float32": every, "bfloat16": every - {"no_prefetch", "ordinary_stores"}}
    sweeps = [SWEEP | {"without": without} for without in (["no_spread", "one_row"], ["one_row"])]
    (kept,) = kernel_costs._wanted(["one_row", "no_spread", "in_order"], sweeps).values()
    assert kept == ["no_spread", "in_order"]


def test_too_many_threads_leave_rows_with_their_reason():
    many = most_threads() + 1
    found, samples = by_variant(sweeps=[SWEEP | {"threads": [many]}])
    assert samples.empty and found["reason"].str.contains(f"not {many}").all()


def test_each_variant_takes_one_decision_otherwise():
    shape = Shape(1000, 64, "float32", "backward", 3)
    made = plans(_variants._MAKE, shape)
    default = made.pop("default")
    distance = {"ahead", "spread", "pages"}
    together = {"sums_per_thread": {"chunks", "block"}, "no_prefetch": distance, "in_pages": distance}
    for name, plan in made.items():
        changed = {field for field in plan._fields if getattr(plan, field) != getattr(default, field)}
        assert len(changed) <= 1 or changed <= together[name], name
    assert made["sums_per_thread"].chunks == 3 and made["sums_per_thread"].block >= 334
    assert made["sums_per_thread"].block % default.group == 0
    assert [made[f"{n}_row" + "s" * (n != "one")].group for n in ("one", "two", "four")] == [1, 2, 4]


def test_in_pages_and_in_order_are_each_what_the_other_is_not():
    """Where the default reads in pages, several rows are read in order."""
    shape = Shape(1000, 64, "float32", "backward", 3)
    default = plans([], shape)["default"]
    paged = _variants._MAKE["in_pages"](default._replace(group=2, lag=True), shape)
    assert (paged.group, paged.pages, paged.lag) == (1, numba_tuning.PAGES, False)
    assert _variants._MAKE["in_pages"](paged, shape) == paged
    ordered = _variants._MAKE["in_order"](paged, shape)
    assert (ordered.pages, ordered.ahead, ordered.spread) == (1, numba_tuning.NEXT_PAGE, numba_tuning.SPREAD)
    assert _variants._MAKE["in_order"](ordered, shape) == ordered
    for name, group in (("two_rows", 2), ("four_rows", 4)):
        plan = _variants._MAKE[name](paged, shape)
        assert numba_plan.checked(plan._replace(block=32)) and plan.group == group
        assert (plan.ahead, plan.spread) == (ordered.ahead, ordered.spread)
        assert _variants._MAKE[name](default, shape) == default._replace(group=group)


def test_every_variant_of_every_shape_is_a_plan_that_can_be_followed():
    """Shapes beyond and within the cache, whose statistics are copied or not."""
    for rows, hidden in product((10, 10**7), (16, 256, 1024, 1025, 16384)):
        for dtype, direction in product(("float64", "float32", "bfloat16"), ("forward", "backward")):
            made = plans(get_args(Variant), Shape(rows, hidden, dtype, direction, 2))
            assert [numba_plan.checked(plan) for plan in made.values()] == list(made.values())

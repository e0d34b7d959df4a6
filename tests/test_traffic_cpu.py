"""The table of bytes: those modelled, and those counted by memory controllers or estimated from the time."""

from contextlib import contextmanager

import numpy as np
import pytest

from layernorm_backward import counters
from layernorm_backward.experiments import _counted, traffic_cpu
from layernorm_backward.kernels import numba_plan
from layernorm_backward.records.tabulate import table
from layernorm_backward.timing import cell_roof
from layernorm_backward.traffic import MODELS, totals
from layernorm_backward.traffic.minimum import minimum_bytes

TENSOR, SMALL = 8 * 16 * 8, (2 * 8 + 3 * 16) * 8
REPEATS = 3
NO_COUNTERS = "no counters in a test"


@pytest.fixture(autouse=True)
def _no_counters(monkeypatch):
    monkeypatch.setattr(counters, "missing", lambda: NO_COUNTERS)


def timing(**changed):
    row = {
        "kernel": "compact", "direction": "backward", "dtype": "float64", "gamma_dtype": "float64",
        "shape": "2x4x16", "rows": 8, "hidden": 16, "residency": "memory", "roof_operation": "triad",
    }  # fmt: skip
    rows = [row | {"threads": n, "roof_fraction": f} | changed for n, f in ((1, 0.5), (2, 0.25))]
    return table(rows, "timing_cpu")


def bytes_of(times, **changed):
    given = {
        "kernels": ["compact"], "schemes": ["fused"], "directions": ["backward"], "dtypes": ["float64"],
        "shapes": [(2, 4, 16)], "counter_repeats": REPEATS, "counter_tolerance": 0.1, "counter_budget_s": 9.0,
        "seed": 0,
    }  # fmt: skip
    return traffic_cpu.run(**given | changed, timing_cpu=times).set_index("kernel")


def test_bytes_are_modelled_with_write_allocate_and_estimated_from_the_time():
    found = bytes_of(timing()).loc["compact"]
    assert found["minimum_bytes"] == 3 * TENSOR + SMALL
    assert found["modelled_bytes"] == (14 + 2 * 7) * TENSOR + SMALL
    assert found["measured_bytes"] == 4 * TENSOR / 0.25
    assert found["measured_over_minimum"] == found["measured_bytes"] / found["minimum_bytes"]
    assert found["method"] == "estimated: time x bandwidth of triad, 2 threads"
    assert found["counter"] == NO_COUNTERS


def test_operations_and_accesses_stand_beside_the_counted_ones():
    found, model = bytes_of(timing()).loc["compact"], totals(MODELS["compact"]["backward"])
    for column in ("operations_per_element", "counted_operations_per_element"):
        assert found[column] == model.operations
    for column in ("accesses_per_element", "counted_accesses_per_element"):
        assert found[column] == model.accesses != model.operations
    assert found["reductions"] == model.row_sums


def test_the_fewest_bytes_forward_are_x_and_y_mean_and_rstd_gamma_and_beta():
    assert minimum_bytes("forward", "float64", 8, 16) == 2 * TENSOR + (2 * 8 + 2 * 16) * 8


def test_the_time_with_most_threads_is_taken_in_whatever_order_they_were_timed():
    found = bytes_of(timing().iloc[::-1]).loc["compact"]
    assert found["method"].endswith(", 2 threads") and found["measured_bytes"] == 4 * TENSOR / 0.25


@pytest.mark.parametrize("residency", ["cache", "partly"])
def test_no_bytes_are_measured_where_the_cache_may_hold_some(residency):
    found = bytes_of(timing(residency=residency)).loc["compact"]
    assert np.isnan(found["measured_bytes"])
    assert (found["method"], found["counter"]) == ("", "")
    assert found["modelled_bytes"] > 0


@pytest.mark.parametrize(
    "changed", [{"reason": "not here"}, {"gamma_dtype": "float32"}, {"direction": "both"}, {"kernel": "a"}]
)
def test_times_of_other_things_are_not_taken(changed):
    assert bytes_of(timing(**changed))["measured_bytes"].isna().all()


def test_shapes_timed_beyond_the_cache_are_in_the_table():
    found = bytes_of(timing(rows=64, shape="1x64x16"))
    rows = found.loc["compact"].set_index("rows")
    assert set(rows.index) == {8, 64}
    assert rows.loc[64, "measured_bytes"] == 4 * 8 * TENSOR / 0.25
    assert np.isnan(rows.loc[8, "measured_bytes"])
    assert list(found.loc[["fused"], "rows"]) == [8]


def test_a_streamed_result_has_no_write_allocate(monkeypatch):
    asked = []

    def choose(rows, hidden, dtype, direction="backward"):
        asked.append((rows, hidden, dtype.name, direction))
        return numba_plan.Plan(group=1, ahead=1, stream=rows > 8, chunks=1)

    monkeypatch.setattr(numba_plan, "choose", choose)
    shapes = [(1, 8, 16), (1, 16, 16)]
    found = bytes_of(timing(), kernels=["numba_fused"], schemes=[], shapes=shapes)
    assert list(found["stores"]) == ["ordinary", "non-temporal"]
    over = (found["modelled_bytes"] / found["minimum_bytes"]).tolist()
    assert over[0] > 1.2 > over[1] == 1
    assert asked == [(8, 16, "float64", "backward"), (16, 16, "float64", "backward")]


def test_numpy_stores_are_ordinary_where_ours_stream(monkeypatch):
    streamed = numba_plan.Plan(group=1, ahead=1, stream=True, chunks=1)
    monkeypatch.setattr(numba_plan, "choose", lambda *size: streamed)
    found = bytes_of(timing(), kernels=["compact", "numba_fused"], schemes=[])
    assert found["stores"].to_dict() == {"compact": "ordinary", "numba_fused": "non-temporal"}


def test_the_reference_is_modelled_in_float64_alone():
    found = bytes_of(timing(), kernels=["reference"], schemes=[], dtypes=["float64", "float32"])
    found = found.set_index("dtype")
    assert found.loc["float64", "reason"] == "" and found.loc["float64", "modelled_bytes"] > 0
    assert found.loc["float32", "reason"].startswith("its intermediates are float64; ")


def test_what_has_no_model_says_so(monkeypatch):
    monkeypatch.delitem(MODELS, "compact")
    found = bytes_of(timing()).loc["compact"]
    assert found["reason"] == "no traffic model is written down for compact"
    assert np.isnan(found["modelled_bytes"])


def test_16_bits_are_modelled_where_nothing_is_widened_in_passes():
    halves = timing(dtype="float16", gamma_dtype="float16")
    found = bytes_of(halves, dtypes=[])
    assert found.loc["compact", "reason"].startswith("NumPy's passes in float16 are not modelled")
    fused = bytes_of(halves.assign(kernel="numba_fused"), kernels=["numba_fused"], dtypes=[]).loc[
        "numba_fused"
    ]
    assert fused["minimum_bytes"] == 3 * TENSOR / 4 + 2 * 8 * 4 + 3 * 16 * 2


def test_roofs_of_the_timing_have_their_bytes_here():
    timed = {name for direction in ("forward", "backward") for name in cell_roof.ROOFS[direction]}
    in_pages = {"copy_pages": 2, "triad_pages": 3}
    assert in_pages | {"copy": 3, "copy_nt": 2, "triad": 4, "triad_nt": 3} == _counted.MOVED
    assert timed == set(_counted.MOVED) - set(in_pages)


@pytest.fixture
def controllers(monkeypatch):
    """Counters that see `seen` arrays of the size of x a call, and the streams that were called."""

    class Controllers:
        def __init__(self):
            self.seen, self.calls = 3.0, []

        def count(self, calls):
            calls()
            return self.seen * TENSOR * REPEATS

    machine = Controllers()
    monkeypatch.setattr(counters, "missing", lambda: "")

    @contextmanager
    def memory_bytes():
        yield machine.count

    monkeypatch.setattr(counters, "memory_bytes", memory_bytes)
    monkeypatch.setattr(_counted.roofs, "missing", lambda name: "")

    def stream(name, *arrays):
        assert name == "triad_nt"
        return lambda: machine.calls.append((name, arrays[0].shape))

    monkeypatch.setattr(_counted.roofs, "stream", stream)
    return machine


def test_counted_bytes_take_the_place_of_the_estimate(controllers):
    found = bytes_of(timing(threads=1)).loc["compact"]
    assert found["measured_bytes"] == 3 * TENSOR
    assert found["method"] == "counted by the memory controllers, 1 thread"
    assert found["counter"] == ""
    assert controllers.calls == [("triad_nt", (8, 16))] * (1 + REPEATS)


def test_counters_that_miss_the_bytes_of_the_triad_are_not_believed(controllers):
    controllers.seen = 1.5
    found = bytes_of(timing(threads=1)).loc["compact"]
    assert found["method"].startswith("estimated")
    assert found["counter"] == "the counters give 0.50 times the bytes of a stream of known bytes"


def test_counting_stops_when_its_time_is_spent(controllers):
    found = bytes_of(timing(threads=1), counter_budget_s=0.0).loc["compact"]
    assert found["method"].startswith("estimated")
    assert found["counter"] == "counting stopped after 0 s"


def test_counters_are_not_read_where_nothing_was_timed_beyond_the_cache(controllers):
    assert bytes_of(timing(residency="cache"))["measured_bytes"].isna().all()
    assert controllers.calls == []

"""The table of times: which rows there are, what stands beside them, and that wrong kernels are not timed."""

import dataclasses
import time

import numpy as np
import pytest

from layernorm_backward import machine
from layernorm_backward.experiments import _prepared, timing_cpu
from layernorm_backward.kernels import KERNELS

ARGUMENTS = {
    "kernels": ["compact", "overcached", "numba_fused"],
    "threaded": ["numba_fused"],
    "directions": ["forward", "backward"],
    "shapes": [(2, 3, 32)],
    "dtypes": ["float64"],
    "threads": [1, "all"],
    "repeats": 2,
    "at_least": 2,
    "budget_s": 0.0,
    "error_rows": 4,
    "error_limit_u": 100.0,
    "seed": 2,
}


@pytest.fixture(scope="module")
def measured():
    return timing_cpu.run(**ARGUMENTS)


def test_numpy_kernels_have_one_thread_and_threaded_ones_all(measured):
    found, _ = measured
    counts = found.groupby("kernel")["threads"].agg(set)
    assert counts["compact"] == counts["overcached"] == {1}
    assert counts["numba_fused"] == {1, machine.usable_cores()}


def test_useful_bytes_are_two_or_three_accesses_over_the_time(measured):
    found, _ = measured
    accesses = found["direction"].map({"forward": 2, "backward": 3})
    expected = accesses * 6 * 32 * 8 / found["median_s"] / 1e9
    np.testing.assert_allclose(found["useful_gb_per_s"], expected)


def test_each_row_names_the_roof_of_its_direction_and_compact_is_its_own_partner(measured):
    found, _ = measured
    for direction, name in (("forward", "copy"), ("backward", "triad")):
        roof = found.loc[found["direction"] == direction, "roof_operation"]
        assert roof.str.startswith(name).all()
    own = found[found["kernel"] == "compact"]
    assert (own[["compact_ratio", "compact_ratio_low", "compact_ratio_high"]] == 1).all(axis=None)
    assert (found["roof_fraction"] > 0).all()


def test_the_samples_hold_kernels_and_roofs_of_each_cell(measured):
    _, samples = measured
    names = samples.groupby(["direction", "threads"])["name"].agg(set)
    assert names["backward", 1] == {"compact", "overcached", "numba_fused", "triad", "triad_nt"}
    assert "compact" in names["forward", machine.usable_cores()]


def test_errors_are_small_and_saved_bytes_are_those_of_the_kernel(measured):
    found, _ = measured
    assert found["error_u_max"].between(0, 10).all()
    tensor, row, vector = 6 * 32 * 8, 6 * 8, 32 * 8
    compact = found[found["kernel"] == "compact"]
    assert set(compact["saved_bytes"]) == {tensor + row + vector}
    assert set(compact["saved_extra_bytes"]) == {tensor + row}


def test_a_wrong_kernel_is_not_timed_and_the_row_says_why(monkeypatch):
    compact = KERNELS["compact"]

    def wrong(dy, saved, out=None):
        found = compact.backward(dy, saved, out)
        found[0][...] *= 1.001
        return found

    kernels = {"compact": dataclasses.replace(compact, backward=wrong), "overcached": KERNELS["overcached"]}
    monkeypatch.setattr(timing_cpu, "KERNELS", kernels)
    changed = {"kernels": list(kernels), "threaded": [], "threads": [1]}
    found, samples = timing_cpu.run(**ARGUMENTS | changed)
    row = found[(found["kernel"] == "compact") & (found["direction"] == "backward")].iloc[0]
    assert row["reason"].startswith("wrong: an error of") and np.isnan(row["median_s"])
    other = found[(found["kernel"] == "overcached") & (found["direction"] == "backward")].iloc[0]
    assert other["median_s"] > 0 and np.isnan(other["compact_ratio"])
    assert "compact" not in set(samples.loc[samples["direction"] == "backward", "name"])


@pytest.mark.parametrize(
    "cache, residency", [(2 * 6 * 32 * 8, "cache"), (2 * 6 * 32 * 8 - 1, "memory"), (0, "")]
)
def test_residency_is_memory_where_what_is_touched_exceeds_the_last_level_cache(
    monkeypatch, cache, residency
):
    monkeypatch.setattr(machine, "last_level_cache_bytes", lambda: cache)
    assert timing_cpu._cell((2, 3, 32), "float64", "forward")["residency"] == residency


def test_the_error_is_that_of_the_rows_of_the_timed_arrays():
    arrays = _prepared.buffers((5, 1, 16), "float64", seed=3)
    ready, refused = _prepared.prepare({"compact": KERNELS["compact"]}, "backward", arrays, 2, 100.0)
    assert refused == {} and ready["compact"].error_u_max < 10
    arrays.out[-1] *= 2  # the last row is among those looked at
    assert _prepared._error_u_max("backward", arrays, 2, 1e-5) > 1e14


def test_the_first_run_of_a_kernel_is_timed_without_its_compilation():
    compact, compiled = KERNELS["compact"], []

    def forward(*arguments, **options):
        if not compiled:
            time.sleep(1.0)
            compiled.append(True)
        return compact.forward(*arguments, **options)

    kernel = dataclasses.replace(compact, forward=forward)
    arrays = _prepared.buffers((2, 1, 8), "float64", seed=3)
    ready, _ = _prepared.prepare({"compact": kernel}, "forward", arrays, 2, 100.0)
    assert ready["compact"].first_s < 0.9


@pytest.mark.parametrize(
    "changed, message",
    [({"kernels": ["compat"]}, "unknown kernel 'compat'"), ({"threaded": ["recentred"]}, "threaded names")],
)
def test_unknown_kernels_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        timing_cpu.run(**ARGUMENTS | changed)


def test_a_dtype_that_a_kernel_lacks_leaves_a_row_with_its_reason(monkeypatch):
    lacking = dataclasses.replace(KERNELS["compact"], unsupported={"float64": "no doubles here"})
    monkeypatch.setattr(timing_cpu, "KERNELS", {"compact": lacking})
    found, samples = timing_cpu.run(**ARGUMENTS | {"kernels": ["compact"], "threaded": []})
    assert set(found["reason"]) == {"no doubles here"}
    assert found["median_s"].isna().all() and samples.empty

"""The table of roofs: its rows, its units, and what happens where something cannot be had."""

import itertools

import numpy as np
import pytest

from layernorm_backward import machine, roofs
from layernorm_backward.experiments import ceiling_cpu
from layernorm_backward.timing import sizing

ARGUMENTS = {
    "dtypes": ["float64"],
    "working_sets": [49152],
    "threads": [1],
    "multiply_add_rounds": 100,
    "memory_limit_bytes": 1 << 22,
    "repeats": 2,
    "at_least": 2,
    "budget_s": 0.0,
    "seed": 1,
}


def test_bandwidth_is_the_working_set_over_the_time():
    found, samples = ceiling_cpu.run(**ARGUMENTS)
    streams = found[found["operation"].isin(roofs.STREAMS)]
    np.testing.assert_allclose(streams["gb_per_s"], 49152 / streams["median_s"] / 1e9, rtol=1e-3)
    assert set(samples["name"]) == set(found["operation"])
    assert (samples.groupby("name")["repeat"].nunique() == 2).all()


def test_the_peak_is_operations_over_time_and_moves_no_bytes():
    found, _ = ceiling_cpu.run(**ARGUMENTS)
    peak = found[found["operation"] == "multiply_add"].iloc[0]
    assert peak["bytes"] == 0
    assert peak["gflop_per_s"] == roofs.operations("float64", 100, 1) / peak["median_s"] / 1e9


def test_beyond_the_cache_is_four_times_the_last_level_and_a_limit_on_memory_is_told(monkeypatch):
    monkeypatch.setattr(machine, "last_level_cache_bytes", lambda: 20_000)
    found, _ = ceiling_cpu.run(**ARGUMENTS | {"working_sets": ["beyond_cache"]})
    assert set(found["bytes"]) == {80_000, 0}
    assert set(found["reason"]) == {""}
    found, _ = ceiling_cpu.run(**ARGUMENTS | {"working_sets": ["beyond_cache"], "memory_limit_bytes": 90_000})
    streams = found[found["bytes"] == 60_000]
    assert set(streams["note"]) == {
        "80000 bytes were wanted; memory_limit_bytes and a third of the available memory allow 60000"
    }
    assert set(found["reason"]) == {""} and (streams["gb_per_s"] > 0).all()
    assert streams["gb_per_s"].notna().all()


def test_a_size_that_rests_on_an_assumed_cache_says_so(monkeypatch):
    monkeypatch.setattr(machine, "last_level_cache_bytes", lambda: 0)
    found, _ = ceiling_cpu.run(**ARGUMENTS | {"working_sets": ["beyond_cache"]})
    streams = found[found["operation"].isin(roofs.STREAMS)]
    assert streams["note"].str.endswith("; cache size not told; 64 MiB assumed").all()


def test_memory_that_is_not_there_is_not_taken(monkeypatch):
    monkeypatch.setattr(sizing, "memory_limit", lambda: 90_000)
    taken, empty = [], ceiling_cpu.aligned_empty

    def recorded(size, dtype):
        taken.append(size)
        return empty(size, dtype)

    monkeypatch.setattr(ceiling_cpu, "aligned_empty", recorded)
    wide = {"working_sets": [8192, 120_000, 240_000], "dtypes": ["float64", "float32"]}
    found, _ = ceiling_cpu.run(**ARGUMENTS | wide)
    assert set(found["bytes"]) == {8192, 60_000, 0} and set(found["reason"]) == {""}
    assert taken == [30_000] * 3  # once for all cells: freed memory stays in the process


def test_more_threads_than_cores_leave_rows_with_a_reason():
    found, _ = ceiling_cpu.run(**ARGUMENTS | {"threads": [1, 10_000]})
    missing = found[found["threads"] == 10_000]
    assert len(missing) == len(roofs.STREAMS) + 1
    assert missing["reason"].str.contains("cores are usable here, not 10000").all()
    assert missing["median_s"].isna().all()


def test_a_missing_store_leaves_a_row_with_its_reason(monkeypatch):
    reasons = {"copy_nt": "no such store", "triad_nt": "no such store"}
    monkeypatch.setattr(roofs, "missing", lambda name: reasons.get(name, ""))
    found, _ = ceiling_cpu.run(**ARGUMENTS)
    missing = found[found["operation"].isin(reasons)]
    assert set(missing["reason"]) == {"no such store"}
    assert missing["gb_per_s"].isna().all()
    assert found[found["operation"] == "copy"]["gb_per_s"].notna().all()


def test_no_thread_is_refused():
    with pytest.raises(ValueError, match="threads"):
        ceiling_cpu.run(**ARGUMENTS | {"threads": [0]})


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_arrays_hold_random_numbers_to_their_ends_unlike_each_other(dtype):
    memory = [np.zeros(40_000, np.uint8) for _ in range(3)]
    buffers = ceiling_cpu._buffers(dtype, 60_000, memory)
    assert {one.nbytes for one in buffers} == {30_000 // np.dtype(dtype).itemsize * np.dtype(dtype).itemsize}
    assert all(np.shares_memory(one, its) for one, its in zip(buffers, memory, strict=True))
    assert all((one > 0).all() and abs(one.mean() - 0.5) < 0.05 for one in buffers)
    assert not any(np.array_equal(one, other) for one, other in itertools.combinations(buffers, 2))

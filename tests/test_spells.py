"""Spells of the machine: bands of repetitions by the time of a loop that touches no memory."""

from dataclasses import replace

import numpy as np
import pytest
from numba import get_num_threads

from layernorm_backward import roofs, stopwatch
from layernorm_backward.experiments import spells
from layernorm_backward.kernels import KERNELS
from layernorm_backward.roofs import in_cache
from layernorm_backward.timing.timed import most_threads
from planned_samples import known, planned

REPEATS = 12
ARGUMENTS = {
    "kernels": ["numba_fused"],
    "directions": ["backward"],
    "dtypes": ["float32"],
    "hidden": [48],
    "working_set": 60_000,
    "threads": [1],
    "loop_rounds": {"update": 3, "multiply_add": 100},
    "bands": [1.1, 1.2],
    "rounds": 1,
    "repeats": REPEATS,
    "at_least": REPEATS,
    "budget_s": 0.0,
    "error_rows": 3,
    "error_limit_u": 100.0,
    "seed": 2,
}
LOADED = np.array([1.0, 2, 1, 2, 2, 1, 2, 1, 1, 2, 1, 2])  # what the core does to `update`, by repetition


def by_band(**changed):
    found, samples = spells.run(**ARGUMENTS | changed)
    return found.set_index("band"), samples


def test_a_kernel_that_the_core_slows_loses_in_the_band_where_it_is_taken(monkeypatch):
    planned(
        monkeypatch,
        REPEATS,
        numba_fused=1.5 * LOADED,
        update=LOADED,
        multiply_add=np.linspace(1, 1.1, REPEATS),
    )
    found, _ = by_band()
    assert found["repeats"].tolist() == [12, 6, 0, 6]
    assert found["update_below"].tolist()[1:] == [1.1, 1.2, np.inf]
    ends = found.loc[[1, 3]]
    assert ends["roof_fraction"].tolist() == pytest.approx([1 / 1.5, 1 / 3], rel=0.01)
    assert ends["update_slowdown"].tolist() == pytest.approx([1, 2])
    assert ends["kernel_slowdown"].tolist() == pytest.approx([1, 2])
    assert ends["roof_slowdown"].tolist() == pytest.approx([1, 1], rel=0.01)
    assert found.loc[0, "kernel_correlation"] == pytest.approx(1)
    assert abs(found.loc[0, "multiply_add_correlation"]) < 0.5
    assert ends["kernel_correlation"].isna().all()


def test_a_slowdown_is_the_median_of_its_band(monkeypatch):
    planned(monkeypatch, REPEATS, numba_fused=np.where(np.arange(REPEATS) < 4, 5.0, 1.0))
    assert by_band()[0].loc[1, "kernel_slowdown"] == pytest.approx(1)


def test_repetitions_that_stood_in_the_run_queue_are_left_out_of_all_columns(monkeypatch):
    taken = np.where(np.isin(np.arange(REPEATS), (1, 3)), 10.0, LOADED)
    planned(monkeypatch, REPEATS, (1, 3), numba_fused=taken, update=taken)
    found, samples = by_band()
    assert found["repeats"].tolist() == [10, 6, 0, 4]
    assert len(samples[samples["name"] == "update"]) == REPEATS
    planned(monkeypatch, REPEATS, range(REPEATS - 1), update=LOADED)
    assert by_band()[0].loc[0, "repeats"] == REPEATS  # too few would remain


def test_a_band_of_few_repetitions_says_so(monkeypatch):
    planned(monkeypatch, REPEATS, update=LOADED)
    found, _ = by_band()
    assert found.loc[2, "reason"] == "0 repetitions, fewer than 6"
    assert np.isnan(found.loc[2, "roof_fraction"])


def test_the_loops_are_held_against_their_least_on_as_many_threads(monkeypatch):
    """The second cell never has the core to itself, which its own times cannot show."""
    slow = iter([LOADED, 2 + LOADED])

    def compare(calls, **how):
        planned(monkeypatch, REPEATS, update=next(slow))
        found = stopwatch.compare(calls, **how)
        monkeypatch.setattr(stopwatch, "compare", compare)
        return found

    monkeypatch.setattr(stopwatch, "compare", compare)
    found, _ = spells.run(**ARGUMENTS | {"hidden": [48, 64]})
    slowdown = found.set_index(["hidden", "band"])["update_slowdown"]
    assert slowdown.loc[48, 3] == pytest.approx(2)
    assert slowdown.loc[64, 3] == pytest.approx(3.5)


def test_every_repetition_is_kept_with_the_keys_of_its_cell():
    found, samples = by_band(rounds=2, threads=[1, "all"])
    counts = sorted({1, most_threads()})
    assert sorted(set(found["threads"])) == counts
    assert set(samples["name"]) >= {"numba_fused", "update", "multiply_add", "triad"}
    kept = samples[(samples["name"] == "update") & (samples["threads"] == 1)]
    assert sorted(kept["repeat"]) == list(range(REPEATS))
    assert found.loc[0, "roof_fraction"].min() > 0 if len(counts) > 1 else found.loc[0, "roof_fraction"] > 0


def test_results_are_looked_at_and_calls_tried_in_the_first_round_only(monkeypatch):
    checked, given, prepare = [], known(monkeypatch), spells.prepare
    monkeypatch.setattr(spells, "prepare", lambda *arguments: checked.append(1) or prepare(*arguments))
    _, samples = by_band(rounds=3)
    assert len(checked) == 1
    assert given[0] == set() and given[1] == given[2] == set(samples["name"])


def test_a_kernel_beyond_the_limit_is_not_timed_and_the_reason_is_reported():
    found, samples = by_band(error_limit_u=0.0)
    assert found.loc[0, "reason"].startswith("wrong: an error of")
    assert len(found) == 1 and samples.empty


def test_more_threads_than_cores_are_reported():
    found, _ = by_band(threads=[1 << 12])
    assert "cores are usable here" in found.loc[0, "reason"]


def test_a_kernel_that_cannot_run_here_is_named_beside_those_that_can(monkeypatch):
    absent = replace(KERNELS["compact"], name="absent", requires=("no_such_package",))
    monkeypatch.setattr(spells, "KERNELS", {**KERNELS, "absent": absent})
    found, _ = spells.run(**ARGUMENTS | {"kernels": ["absent", "compact"], "hidden": [48, 48]})
    reasons = found[found["band"] == 0].set_index("kernel")["reason"]
    assert reasons.to_dict() == {"absent": "not installed: no_such_package", "compact": ""}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_updates_change_each_number_once_a_round(dtype):
    half = np.dtype(dtype).type(0.5)
    vectors = np.arange(6, dtype=dtype).reshape(2, 3)
    expected = vectors
    for _ in range(3):
        expected = expected * half + half
    in_cache.updates(vectors, half, half, 3)
    np.testing.assert_array_equal(vectors, expected)


def test_each_thread_updates_a_vector_of_its_own_in_the_first_level_cache(monkeypatch):
    seen = []
    monkeypatch.setattr(in_cache, "updates", lambda vectors, *given: seen.append((vectors, given)))
    roofs.updates("float32", 7)()
    ((vectors, (factor, addend, rounds)),) = seen
    assert vectors.shape == (get_num_threads(), in_cache.BYTES // 4)
    assert (vectors == vectors * factor + addend).all()  # no denormals, no overflow, however many rounds
    assert rounds == 7

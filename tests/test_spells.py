"""Spells of the machine: parts of repetitions by the time of a loop that touches no memory."""

import numpy as np
import pandas as pd
import pytest
from numba import get_num_threads

from layernorm_backward import near, roofs, stopwatch
from layernorm_backward.experiments import spells
from layernorm_backward.experiments._timed import most_threads

ARGUMENTS = {
    "kernel": "numba_fused",
    "directions": ["backward"],
    "dtypes": ["float32"],
    "hidden": [48],
    "working_set": 60_000,
    "threads": [1],
    "loop_rounds": {"update": 3, "multiply_add": 100},
    "parts": 2,
    "rounds": 1,
    "repeats": 8,
    "at_least": 8,
    "budget_s": 0.0,
    "error_rows": 3,
    "error_limit_u": 100.0,
    "seed": 2,
}
LOADED = np.array([1.0, 2.0, 1.0, 2.0, 2.0, 1.0, 2.0, 1.0])  # what the core does to `update`, by repetition


def by_part(**changed):
    found, samples = spells.run(**ARGUMENTS | changed)
    return found.set_index("part"), samples


def planned(monkeypatch, **seconds):
    """Samples of every call: about 1 s, or what is given for its name."""
    steady = np.linspace(1, 1.001, 8)

    def compare(calls, **how):
        rows = [
            (name, repeat, seconds.get(name, steady)[repeat], 1, 0.0, False)
            for name in calls
            for repeat in range(8)
        ]
        return pd.DataFrame(rows, columns=["name", "repeat", "seconds", "calls", "wait_s", "waited"])

    monkeypatch.setattr(stopwatch, "compare", compare)


def test_a_kernel_that_the_core_slows_loses_in_the_part_where_it_is_least_free(monkeypatch):
    planned(monkeypatch, numba_fused=1.5 * LOADED, update=LOADED, multiply_add=np.linspace(1, 1.1, 8))
    found, _ = by_part()
    assert list(found["repeats"]) == [8, 4, 4]
    assert found["roof_fraction"].loc[[1, 2]].tolist() == pytest.approx([1 / 1.5, 1 / 3], rel=0.01)
    assert found["update_slowdown"].loc[[1, 2]].tolist() == pytest.approx([1, 2])
    assert found["kernel_slowdown"].loc[[1, 2]].tolist() == pytest.approx([1, 2])
    assert found["roof_slowdown"].loc[[1, 2]].tolist() == pytest.approx([1, 1], rel=0.01)
    assert found.loc[0, "kernel_correlation"] == pytest.approx(1)
    assert abs(found.loc[0, "multiply_add_correlation"]) < 0.5
    assert found["kernel_correlation"].loc[[1, 2]].isna().all()


def test_the_loops_are_held_against_their_least_on_as_many_threads(monkeypatch):
    """The second cell never has the core to itself, which its own times cannot show."""
    slow = iter([LOADED, 2 + LOADED])

    def compare(calls, **how):
        planned(monkeypatch, update=next(slow))
        found = stopwatch.compare(calls, **how)
        monkeypatch.setattr(stopwatch, "compare", compare)
        return found

    monkeypatch.setattr(stopwatch, "compare", compare)
    found, _ = spells.run(**ARGUMENTS | {"hidden": [48, 64]})
    assert found.set_index(["hidden", "part"])["update_slowdown"].loc[64, 1] == pytest.approx(3)


def test_every_repetition_is_kept_with_the_keys_of_its_cell():
    found, samples = by_part(rounds=2, threads=[1, "all"])
    counts = sorted({1, most_threads()})
    assert sorted(set(found["threads"])) == counts
    assert set(samples["name"]) >= {"numba_fused", "update", "multiply_add", "triad"}
    kept = samples[(samples["name"] == "update") & (samples["threads"] == 1)]
    assert sorted(kept["repeat"]) == list(range(8))
    assert (found["reason"] == "").all()
    assert found["roof_fraction"].gt(0).all()


def test_a_kernel_beyond_the_limit_is_not_timed_and_the_reason_is_told():
    found, samples = by_part(error_limit_u=0.0)
    assert found.loc[0, "reason"].startswith("wrong: an error of")
    assert len(found) == 1 and samples.empty


def test_more_threads_than_cores_are_told():
    found, _ = by_part(threads=[1 << 12])
    assert "cores are usable here" in found.loc[0, "reason"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"parts": 1}, "parts is 1; allowed: 2 to 4, half of at_least"),
        ({"parts": 5}, "parts is 5; allowed: 2 to 4"),
        ({"loop_rounds": {"update": 3}}, r"loop_rounds names \['update'\]; allowed: update, multiply_add"),
    ],
)
def test_bad_configs_are_refused_with_what_is_allowed(changed, said):
    with pytest.raises(ValueError, match=said):
        spells.run(**ARGUMENTS | changed)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_updates_change_each_number_once_a_round(dtype):
    half = np.dtype(dtype).type(0.5)
    vectors = np.arange(6, dtype=dtype).reshape(2, 3)
    expected = vectors
    for _ in range(3):
        expected = expected * half + half
    near.updates(vectors, half, half, 3)
    np.testing.assert_array_equal(vectors, expected)


def test_each_thread_updates_a_vector_of_its_own_in_the_first_level_cache(monkeypatch):
    seen = []
    monkeypatch.setattr(near, "updates", lambda vectors, *given: seen.append((vectors, given)))
    roofs.updates("float32", 7)()
    ((vectors, (factor, addend, rounds)),) = seen
    assert vectors.shape == (get_num_threads(), near.BYTES // 4)
    assert (vectors == vectors * factor + addend).all()  # no denormals, no overflow, however many rounds
    assert rounds == 7

"""Cores near to and far from each other: bands of repetitions by the latency of a relay."""

from time import perf_counter

import numpy as np
import pytest
from numba import njit

import planned_samples
from layernorm_backward import roofs, stopwatch
from layernorm_backward.experiments import handover
from layernorm_backward.roofs import in_cache
from layernorm_backward.roofs.relay import PATIENCE, _relay, relay
from layernorm_backward.timing.timed import most_threads
from planned_samples import planned

REPEATS, TURNS = 12, 1000
SWEEP = planned_samples.SWEEP | {"threads": ["all"]}
ARGUMENTS = {
    "sweeps": [SWEEP],
    "loop_rounds": 2,
    "turns": TURNS,
    "bands_ns": [120.0],
    "rounds": 2,
    "rest_s": 0.0,
    "repeats": REPEATS,
    "at_least": REPEATS,
    "budget_s": 0.0,
    "error_rows": 3,
    "error_limit_u": 100.0,
    "seed": 2,
}
COUNT = REPEATS // ARGUMENTS["rounds"]
FAR = np.array([0, 1] * (COUNT // 2))  # whether the cores are far from each other, in a round
shared = pytest.mark.skipif(most_threads() < 2, reason="one core is usable here")


def by_band(**changed):
    found, samples = handover.run(**ARGUMENTS | changed)
    return found.set_index("band"), samples


@pytest.fixture(scope="module")
def patient():
    """The relay whose threads wait 256 times as long for their turn: one may have to wait for a core."""
    with pytest.MonkeyPatch.context() as patched, stopwatch.threads(1):
        patched.setitem(_relay.__globals__, "PATIENCE", PATIENCE << 8)
        compiled = njit(parallel=True)(_relay(""))
        compiled(np.zeros(8, np.intp), 0, 2)
    return compiled


@pytest.fixture(autouse=True)
def in_no_hurry(patient, monkeypatch):
    monkeypatch.setattr(roofs, "relay_of_threads", lambda: patient)


@shared
def test_near_and_far_cores_are_told_apart_by_the_latency(monkeypatch):
    latency = np.where(FAR, 160e-9, 30e-9)
    planned(
        monkeypatch,
        COUNT,
        relay=latency * TURNS,
        handed=1.6 + FAR,
        triad=2.0 - FAR,
        triad_nt=np.full(FAR.size, 9.0),
        ordinary=np.where(FAR, 3.0, 0.5),
        **{"pass": np.full(FAR.size, 2.0)},
    )
    found, _ = by_band()
    assert found["repeats"].tolist() == [12, 6, 6]
    assert found["latency_below_ns"].tolist()[1:] == [120.0, np.inf]
    bands = found.loc[[1, 2]]
    assert bands["latency_ns"].tolist() == pytest.approx([30, 160])
    assert bands["handed_ratio"].tolist() == pytest.approx([1.6, 2.6], rel=0.01)
    assert bands["roof_fraction"].tolist() == pytest.approx([1, 0.5])
    assert bands["stores_ratio"].tolist() == pytest.approx([0.5, 3], rel=0.01)
    size = found.loc[0, "bytes"]
    assert set(found["roof_operation"]) == {"triad"}
    assert bands["roof_gb_per_s"].tolist() == pytest.approx([size / 2e9, size / 1e9])


@shared
def test_repetitions_that_stood_in_the_run_queue_are_left_out(monkeypatch):
    planned(monkeypatch, COUNT, waited=(1,), relay=np.full(FAR.size, 30e-9 * TURNS))
    found, samples = by_band()
    assert found["repeats"].tolist() == [10, 10, 0]
    assert found.loc[2, "reason"] == "0 repetitions, fewer than 6"
    assert len(samples[samples["name"] == "relay"]) == REPEATS


@shared
def test_every_repetition_of_all_calls_is_kept_with_the_keys_of_its_cell():
    found, samples = by_band()
    names = {"relay", "handed", "kept", "pass", "ordinary", "non_temporal", "triad"}
    assert set(samples["name"]) >= names
    for name in names:
        assert sorted(samples.loc[samples["name"] == name, "repeat"]) == list(range(REPEATS))
    assert set(samples["working_set"]) == {"60000"} and set(samples["threads"]) == {most_threads()}
    assert found.loc[0, "latency_ns"] > 0 and found.loc[0, "error_u_max"] > 0


@shared
def test_cells_rest_before_each_round(monkeypatch):
    rests = []
    planned(monkeypatch, COUNT)
    monkeypatch.setattr(handover, "sleep", rests.append)
    by_band(rest_s=0.5)
    assert rests == [0.5, 0.5]


@shared
def test_how_long_calls_take_is_known_from_the_rounds_before(monkeypatch):
    given = planned_samples.known(monkeypatch)
    by_band()
    assert given[0] == set() and given[1] >= {"relay", "handed", "kept", "pass", "triad"}


@shared
def test_a_pass_beyond_the_limit_is_not_timed_and_the_reason_is_reported():
    found, samples = by_band(error_limit_u=1e-9)
    assert found["reason"].tolist() == [found.loc[0, "reason"]]
    assert found.loc[0, "reason"].startswith("wrong: ")
    assert samples.empty


@pytest.mark.parametrize(
    ("threads", "reason"), [(1, "one thread hands nothing on"), (1 << 12, "cores are usable here")]
)
def test_threads_that_cannot_hand_on_are_reported(threads, reason):
    found, samples = by_band(sweeps=[SWEEP | {"threads": [threads]}])
    assert reason in found.loc[0, "reason"]
    assert samples.empty


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("step", [0, 1, 2])
def test_each_vector_is_updated_once_a_round_whoever_has_it(dtype, step):
    half = np.dtype(dtype).type(0.5)
    vectors = np.arange(9, dtype=dtype).reshape(3, 3)
    expected = vectors.copy()
    for _ in range(4):
        expected = expected * half + half
    in_cache.handovers(vectors, half, half, 4, step)
    np.testing.assert_array_equal(vectors, expected)


class Recorded:
    """Vectors that note who is asked for, in turn."""

    def __init__(self, parts):
        self.shape, self.asked = (parts, 1), []

    def __getitem__(self, which):
        self.asked.append(which)
        return np.ones(1)


@pytest.mark.parametrize(("step", "asked"), [(0, [0, 1, 2] * 2), (1, [0, 1, 2, 1, 2, 0])])
def test_a_part_goes_on_to_its_neighbours_vector_or_keeps_its_own(step, asked):
    vectors = Recorded(3)
    in_cache.handovers.py_func(vectors, 0.5, 0.5, 2, step)
    assert vectors.asked == asked


def test_vectors_that_are_handed_on_stay_as_they_are(monkeypatch):
    seen = []
    monkeypatch.setattr(in_cache, "handovers", lambda vectors, *given: seen.append((vectors, given)))
    with stopwatch.threads(1):
        roofs.handovers("float64", 7, 1)()
    ((vectors, (factor, addend, rounds, step)),) = seen
    assert vectors.shape == (1, in_cache.HANDOVER_BYTES // 8)
    assert (vectors == vectors * factor + addend).all()
    assert (rounds, step) == (7, 1)


@pytest.mark.parametrize("threads", sorted({1, most_threads()}))
def test_all_threads_count_to_the_end_together(threads):
    with stopwatch.threads(threads):
        run = roofs.relay(1001)
        assert [run(), run()] == [1001, 1001]


def test_a_thread_counts_in_its_turn_only_and_gives_up_where_the_other_does_not_run():
    """Each waits for several slices of a scheduler, which are milliseconds: the other may just be at rest."""
    counter = np.zeros(8, np.intp)
    with stopwatch.threads(1):
        relay()(counter, 0, 2)  # compiles
        begun_s = perf_counter()
        relay()(counter, 9, 2)
    assert counter[0] == 2
    assert perf_counter() - begun_s > 0.05


def test_patience_is_for_each_turn_and_not_for_all_of_them(monkeypatch):
    monkeypatch.setitem(_relay.__globals__, "PATIENCE", 100)
    counter = np.zeros(8, np.intp)
    with stopwatch.threads(1):
        njit(parallel=True)(_relay(""))(counter, 1000, 1)
    assert counter[0] == 1000


@shared
def test_threads_that_do_not_run_at_the_same_time_are_reported(monkeypatch):
    monkeypatch.setattr(roofs, "relay", lambda turns: lambda: turns - 1)
    found, samples = by_band()
    assert found["reason"].tolist() == ["the threads do not run at the same time"]
    assert samples.empty

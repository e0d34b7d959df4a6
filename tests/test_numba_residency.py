"""The working set whose result stays in the last-level cache: measured, within the reported sizes."""

import numpy as np
import pytest

from layernorm_backward import inputs
from layernorm_backward.aligned import aligned_empty
from layernorm_backward.directions import TENSORS
from layernorm_backward.kernels import numba_plan, numba_residency

MB = 1 << 20


@pytest.fixture
def tried(monkeypatch):
    """The sizes measured, as if results of a thread stayed up to 20 MB of three arrays, and 40 MB of two."""
    sizes = []

    def stays(size, count):
        sizes.append(size)
        return size <= {2: 40, 3: 20}[count] * MB

    monkeypatch.setattr(numba_residency, "_cache_resident", stays)
    numba_residency.bytes_per_thread.cache_clear()
    yield sizes
    numba_residency.bytes_per_thread.cache_clear()


def test_sizes_are_doubled_until_one_does_not_stay(tried):
    assert numba_residency.bytes_per_thread(2 * MB, 480 * MB, "backward") == 16 * MB
    assert tried == [4 * MB, 8 * MB, 16 * MB, 32 * MB]


def test_the_arrays_of_each_direction_are_tried(tried):
    assert numba_residency.bytes_per_thread(2 * MB, 480 * MB, "forward") == 32 * MB
    assert tried == [4 * MB, 8 * MB, 16 * MB, 32 * MB, 64 * MB]


def test_what_stays_at_every_size_is_the_whole_cache(tried):
    assert numba_residency.bytes_per_thread(1 * MB, 18 * MB, "backward") == 18 * MB
    assert max(tried) == 16 * MB


@pytest.mark.parametrize(("ratio", "kept"), [(0.9, True), (0.98, False)])
def test_an_outlier_among_the_tries_does_not_decide(ratio, kept, monkeypatch):
    odd = {1: 0.1, 3: 9.0}  # of the ordinary stores
    usual = iter([odd.get(number, ratio) for number in range(numba_residency.TRIES)])
    monkeypatch.setattr(
        numba_residency, "_seconds", lambda a, b, c, streamed: 1.0 if streamed else next(usual)
    )
    assert numba_residency._cache_resident(1 << 16, 3) is kept


@pytest.mark.parametrize("streamed", [False, True])
def test_a_try_counts_its_fastest_run_once_the_caches_have_settled(streamed, monkeypatch):
    lasts = [0.5, 0.5, 0.5, 0.5, 0.5, 3.0, 2.0, 7.0]  # seconds a run
    clock, given = iter(np.repeat(np.cumsum([0.0, *lasts]), 2)[1:]), []
    monkeypatch.setattr(numba_residency, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(numba_residency, "passed_and_read", lambda: lambda *arrays: given.append(arrays[:4]))
    assert numba_residency._seconds("a", None, "c", streamed) == 2.0
    assert given == [("a", None, "c", streamed)] * len(lasts)


def test_a_thread_has_at_least_the_caches_of_its_core(tried):
    assert numba_residency.bytes_per_thread(30 * MB, 480 * MB, "forward") == 30 * MB


def test_results_are_streamed_above_the_working_set_of_all_threads(tried, monkeypatch):
    monkeypatch.setattr(numba_plan, "_caches", lambda: (2 * MB, 480 * MB))
    for threads, direction, end in (
        (1, "backward", 16),
        (1, "forward", 32),
        (2, "backward", 32),
        (2, "forward", 64),
        (40, "backward", 480),
    ):
        assert numba_plan.cache_resident(end * MB, threads, direction)
        assert not numba_plan.cache_resident(end * MB + 1, threads, direction)
    for direction, arrays in TENSORS.items():
        rows = {2: 32, 3: 16}[arrays] * MB // (arrays * 4096)
        for more, streamed in ((0, False), (1, True)):
            plan = numba_plan.choose(rows + more, 1024, np.dtype("float32"), direction, 1)
            assert plan.stream == streamed
        assert not numba_plan.choose(rows + 1, 1024, np.dtype("float32"), direction, 2).stream


def test_nothing_is_measured_where_the_sizes_decide(tried, monkeypatch):
    monkeypatch.setattr(numba_plan, "_caches", lambda: (2 * MB, 480 * MB))
    for direction in TENSORS:
        assert numba_plan.cache_resident(4 * MB, 2, direction)
        assert not numba_plan.cache_resident(480 * MB + 1, 2, direction)
    assert tried == []


@pytest.mark.parametrize("count", TENSORS.values())
@pytest.mark.parametrize(("usual", "stays"), [(0.9, True), (0.98, False), (1.2, False)])
def test_ordinary_stores_must_win_clearly_in_their_median_try(usual, stays, count, monkeypatch):
    noise = iter(np.random.default_rng(3).permutation([1.0, 1.3, 2.0, 1.0, 5.0] * 2))

    def seconds(a, b, c, streamed):
        arrays = [array for array in (a, b, c) if array is not None]
        assert [array.nbytes for array in arrays] == [64 * 10] * count
        return next(noise, 1.0) * (1 if streamed else usual)

    monkeypatch.setattr(numba_residency, "_seconds", seconds)
    monkeypatch.setattr(numba_residency, "TRIES", 9)
    assert numba_residency._cache_resident(count * 64 * 10 + 100, count) == stays


@pytest.mark.parametrize("arrays", TENSORS.values())
@pytest.mark.parametrize("streamed", [False, True])
def test_what_is_timed_passes_over_all_of_the_arrays_and_reads_the_result(streamed, arrays):
    a, b, c = (aligned_empty(16 * 9, np.float32) for _ in range(3))
    a[:], b[:] = inputs.generator(4).integers(-50, 50, (2, a.size))
    c.fill(np.nan)
    total = np.empty(1, np.float32)
    numba_residency.passed_and_read()(a, b if arrays > 2 else None, c, streamed, total)
    wanted = a + b if arrays > 2 else a
    assert np.array_equal(c, wanted)
    assert total[0] == wanted.sum()


@pytest.mark.parametrize("direction", TENSORS)
def test_this_machine_keeps_no_more_than_its_reported_cache(direction):
    inner, last_level = numba_plan._caches()
    assert inner <= numba_residency.bytes_per_thread(inner, last_level, direction) <= last_level

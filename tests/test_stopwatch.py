"""The stopwatch: every call in every repetition, pairs, waiting marked, threads given back."""

import gc
import time

import numba
import numpy as np
import pandas as pd
import pytest

from layernorm_backward.stopwatch import FEWEST, WAITED, compare, counted, fastest, ratio, summary, threads
from layernorm_backward.timing import clock
from layernorm_backward.timing.pace import LONG_S, SETTLED, TICK_S, Pace


def samples_of(waited=(), **seconds):
    rows = [
        {"name": name, "repeat": repeat, "seconds": value, "waited": repeat in waited}
        for name, values in seconds.items()
        for repeat, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


def test_every_repetition_holds_every_call_once_in_changing_order():
    samples = compare({name: int for name in "abc"}, repeats=12, seed=1, minimum_s=0)
    orders = samples.groupby("repeat")["name"].agg("".join)
    assert {"".join(sorted(order)) for order in orders} == {"abc"}
    assert len(orders) == 12
    assert orders.nunique() > 1


def test_a_sample_of_a_short_call_holds_many_runs_and_its_seconds_are_for_one(naps):
    samples = compare({"sleep": lambda: time.sleep(1e-4)}, repeats=9, seed=0, minimum_s=2e-3)
    assert (samples["calls"] >= 2).all()
    assert (samples["seconds"] * samples["calls"] >= 2e-3).all()
    assert 1e-4 <= samples["seconds"].min() < 1e-3


def test_a_call_in_another_process_is_repeated_by_its_own_time_not_by_that_of_asking():
    class Far:
        def __call__(self):
            return self.sample(1, 0)

        def sample(self, loops, lead):
            time.sleep(5e-3)
            return 1e-5, loops, 0.0

    samples = compare({"far": Far()}, repeats=3, seed=0, minimum_s=1e-3)
    assert set(samples["calls"]) == {128}


def test_a_call_known_to_be_long_is_not_calibrated():
    runs = []

    def long():
        runs.append(1)
        time.sleep(1.5 * LONG_S)

    compare({"long": long}, repeats=3, seed=0, known_s={"long": 1.0})
    assert len(runs) == 3


def test_a_call_that_was_thought_long_is_sampled_as_the_short_one_that_it_is():
    """Its only run before may have waited for compiled code, or for a core."""

    class Far:
        def sample(self, loops, lead):
            leads.append(lead)
            return 1e-5, loops, 0.0

    leads = []
    samples = compare({"far": Far()}, repeats=4, seed=0, minimum_s=1e-3, known_s={"far": 0.5})
    assert samples["calls"].tolist() == [1, 128, 128, 128]
    assert leads == [0, *[SETTLED] * 3]


def test_a_sample_that_was_too_short_is_followed_by_longer_ones():
    pace = Pace(1, 4.0).after(0.5, minimum_s=3.0)
    assert pace == (8, 0.5)
    assert pace.after(9.0, minimum_s=3.0) == pace
    assert Pace(2, 4.0).after(0.0, minimum_s=1e-6).loops * TICK_S >= 1e-6


@pytest.mark.parametrize(
    ("nap_s", "expected"), [(2e-3, 1 + 3 + 2 * (SETTLED + 1)), (1.5 * LONG_S, 1 + 1 + 2)]
)
def test_a_call_found_to_be_long_is_neither_tried_again_nor_run_untimed(nap_s, expected, naps):
    runs = []

    def call():
        runs.append(1)
        time.sleep(nap_s)

    compare({"a": call}, repeats=2, seed=0, minimum_s=1e-3)
    assert len(runs) == expected


@pytest.mark.parametrize(("seconds", "lead"), [(LONG_S / 100, SETTLED), (LONG_S / 2, 2), (LONG_S * 2, 0)])
def test_as_many_untimed_runs_as_are_short_precede_each_sample(seconds, lead):
    class Far:
        def sample(self, loops, lead):
            leads.append(lead)
            return seconds, loops, 0.0

    leads = []
    compare({"a": Far()}, repeats=3, seed=0, minimum_s=0, known_s={"a": seconds})
    assert leads == [lead] * 3


def test_a_sample_is_of_the_second_run(naps):
    """The first run wakes what rested: here it takes a hundred times as long."""
    seconds = iter([50.0, 5e-4])
    samples = compare(
        {"a": lambda: time.sleep(next(seconds))}, repeats=1, seed=0, minimum_s=1e-4, known_s={"a": LONG_S}
    )
    assert samples["seconds"].max() < 40


def test_the_budget_ends_a_cell_after_the_fewest_repetitions():
    samples = compare({"a": int}, repeats=1000, at_least=4, budget_s=0, seed=0, minimum_s=0)
    assert len(samples) == 4


def test_a_long_call_takes_no_part_once_it_has_used_its_share_and_the_others_go_on(naps):
    calls = {"long": lambda: time.sleep(6.0), "short": lambda: time.sleep(1.0)}
    known = dict.fromkeys(calls, 1.0)
    samples = compare(calls, repeats=200, at_least=2, budget_s=100.0, seed=0, known_s=known)
    counts = samples["name"].value_counts()
    assert 2 <= counts["long"] < 12  # half of the budget holds eight
    assert counts["short"] > 2 * counts["long"]


@pytest.fixture
def counts(monkeypatch):
    """How many samples there are of calls that take so many seconds by a clock that nothing else moves."""

    def count(**seconds):
        now_s = [0.0]

        def sample(call, loops, lead):
            now_s[0] += call()
            return call(), 1, 0.0

        monkeypatch.setattr(clock, "sample", sample)
        monkeypatch.setattr("layernorm_backward.stopwatch.perf_counter", lambda: now_s[0])
        calls = {name: lambda its=its: its for name, its in seconds.items()}
        known = dict.fromkeys(calls, 1.0)
        samples = compare(calls, repeats=50, at_least=1, budget_s=10.0, seed=0, known_s=known)
        return samples["name"].value_counts().to_dict()

    return count


def test_a_call_may_use_half_of_the_budget_and_all_where_it_is_alone(counts):
    assert counts(a=1.0) == {"a": 11}
    assert counts(a=1.0, b=0.001) == {"a": 6, "b": 50}
    assert counts(a=1.0, b=0.001, c=0.001) == {"a": 6, "b": 50, "c": 50}


def test_a_budget_that_the_fewest_repetitions_have_used_holds_no_more(counts):
    assert counts(a=3.0, b=3.0, c=3.0, d=3.0) == dict.fromkeys("abcd", 1)


def test_freed_memory_stays_in_the_process_before_anything_is_timed(monkeypatch):
    seen = []
    monkeypatch.setattr("layernorm_backward.timing.allocator.keep_freed", lambda: seen.append("kept"))
    compare({"a": lambda: seen.append("called")}, repeats=1, seed=0, minimum_s=0)
    assert seen[0] == "kept" and seen.count("kept") == 1


def test_what_a_call_that_has_left_used_is_not_taken_from_the_others(naps):
    seconds = {"long": 200.0, "short": 1.0}
    calls = {name: lambda its=its: time.sleep(its) for name, its in seconds.items()}
    known = dict.fromkeys(calls, 1.0)
    samples = compare(calls, repeats=12, at_least=2, budget_s=300.0, seed=0, known_s=known)
    assert samples["name"].value_counts().to_dict() == {"long": 2, "short": 12}


def test_a_call_that_is_known_to_be_only_a_little_long_is_tried_all_the_same():
    runs = []
    compare({"a": lambda: runs.append(1)}, repeats=1, seed=0, minimum_s=1e-6, known_s={"a": 2e-6})
    assert len(runs) > 2  # an untimed run and one sample


def test_the_budget_holds_for_all_calls_together(naps):
    calls = {name: lambda: time.sleep(2.0) for name in "abcd"}
    known = dict.fromkeys(calls, 1.0)
    started = naps()
    samples = compare(calls, repeats=500, at_least=2, budget_s=79.0, seed=0, known_s=known)
    assert 80 <= naps() - started < 88
    assert samples["repeat"].max() + 1 == 10


def test_a_call_that_has_numpy_raise_does_so_only_while_it_is_timed():
    with np.errstate():
        before = np.geterr()
        compare({"strict": lambda: np.seterr(all="raise")}, repeats=2, seed=0)
        assert np.geterr() == before


def test_the_garbage_collector_is_off_while_timing_and_on_after():
    seen = []
    compare({"a": lambda: seen.append(gc.isenabled())}, repeats=1, seed=0, minimum_s=0)
    assert set(seen) == {False}
    assert gc.isenabled()


def test_a_garbage_collector_that_was_off_stays_off():
    gc.disable()
    try:
        compare({"a": int}, repeats=1, seed=0, minimum_s=0)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_garbage_collector_is_on_again_after_a_call_that_raises():
    with pytest.raises(ZeroDivisionError):
        compare({"a": lambda: 1 / 0}, repeats=1, seed=0)
    assert gc.isenabled()


def test_the_ratio_is_paired_within_repetitions():
    spell = np.array([1, 2, 4, 8, 16, 32.0])
    found = ratio(samples_of(a=3 * spell, b=spell), "a", "b")
    assert found == (3, 3, 3)


def test_the_interval_of_a_ratio_allows_for_rounds_that_are_alike():
    alike = np.repeat([1.0, 1.1, 1.2, 1.3], 6) + np.tile(np.arange(6) * 1e-3, 4)
    samples = samples_of(waited=(0,), a=alike, b=np.ones(24))
    narrow = ratio(samples, "a", "b")
    wide = ratio(samples.assign(round=samples["repeat"] // 6), "a", "b")
    assert wide.median == narrow.median
    assert wide.low < 1.01 < narrow.low and narrow.high < 1.3 < wide.high


def test_the_fastest_is_found_where_the_machine_was_the_same_for_all():
    spell = np.array([3.0] * 7 + [1.0] * 6)
    samples = samples_of(ordinary=1.2 * spell, streamed=spell)
    samples["waited"] = (samples["name"] == "ordinary") & (samples["repeat"] < 6)
    medians_s = {name: summary(samples, name).median_s for name in ("ordinary", "streamed")}
    assert medians_s["ordinary"] < medians_s["streamed"]
    assert (
        fastest(samples, ["ordinary", "streamed"]) == fastest(samples, ["streamed", "ordinary"]) == "streamed"
    )


def test_the_fastest_call_has_the_least_median_not_the_least_time():
    assert fastest(samples_of(a=[1.0, 3.0, 3.0], b=[2.0, 2.0, 2.0]), ["a", "b"]) == "b"


def test_repetitions_that_waited_for_a_core_are_left_out_where_enough_remain():
    values = [1.0] * 8 + [100.0] * 2
    assert summary(samples_of(waited=(8, 9), a=values), "a") == (1, 1, 1, 8)
    assert summary(samples_of(waited=range(2, 10), a=values), "a").repeats == 10
    assert summary(samples_of(waited=range(6, 10), a=values), "a").repeats == 6
    assert summary(samples_of(waited=range(5, 10), a=values), "a").repeats == 10
    assert summary(samples_of(waited=range(4, 8), a=values[:8]), "a").repeats == 8
    assert summary(samples_of(waited=range(7, 20), a=2 * values), "a").repeats == 20
    assert ratio(samples_of(waited=(8, 9), a=values, b=[1.0] * 10), "a", "b").high == 1


def test_a_repetition_counts_where_no_call_waited_in_it():
    waited = np.zeros((2, 12), bool)
    waited[0, 0] = waited[1, 1] = True
    assert counted(waited).tolist() == [False, False] + 10 * [True]


@pytest.mark.parametrize(("repeats", "known"), [(1, False), (FEWEST - 1, False), (FEWEST, True)])
def test_few_repetitions_have_a_median_and_no_interval(repeats, known):
    samples = samples_of(a=2 + 0.1 * np.arange(repeats), b=np.ones(repeats))
    found = ratio(samples, "a", "b")
    assert found.median == pytest.approx(2 + 0.05 * (repeats - 1))
    assert np.isfinite([found.low, found.high]).tolist() == [known, known]
    assert ratio(samples, "a", "a") == (1, 1, 1)


def test_a_name_without_samples_is_reported_with_those_there_are():
    with pytest.raises(ValueError, match=r"no samples of \['c'\]; there are: \['a'\]"):
        summary(samples_of(a=[1.0]), "c")


@pytest.mark.parametrize(("share", "marked"), [(0.9, False), (1.1, True)])
def test_a_sample_is_marked_from_a_twentieth_of_waiting_on(monkeypatch, share, marked):
    wait_s = share * WAITED * 1.0
    monkeypatch.setattr("layernorm_backward.timing.clock.sample", lambda call, loops, lead: (0.1, 10, wait_s))
    found = compare({"a": int}, repeats=3, seed=0, known_s={"a": 1.0})
    assert WAITED == 0.05 and set(found["waited"]) == {marked}


def test_waiting_in_the_run_queue_is_marked(monkeypatch):
    waited = iter(range(1000))
    monkeypatch.setattr(clock, "run_queue_s", lambda: next(waited))
    assert compare({"a": int}, repeats=3, seed=0)["waited"].all()
    monkeypatch.setattr(clock, "run_queue_s", lambda: float("nan"))
    assert not compare({"a": int}, repeats=3, seed=0)["waited"].any()


def test_off_linux_the_run_queue_is_unknown(monkeypatch, tmp_path):
    monkeypatch.setattr(clock, "_TASKS", tmp_path / "missing")
    assert np.isnan(clock.run_queue_s())


@pytest.mark.parametrize(("told", "known"), [("70 20 3", True), ("0 0 0", False), (None, False)])
def test_a_linux_that_does_not_count_tells_no_waiting(monkeypatch, tmp_path, told, known):
    (tmp_path / "1").mkdir()
    (tmp_path / "ended").mkdir()
    if told:
        (tmp_path / "1" / "schedstat").write_text(f"{told}\n")
    monkeypatch.setattr(clock, "_TASKS", tmp_path)
    np.testing.assert_equal(clock.run_queue_s(), 20e-9 if known else np.nan)


def test_threads_are_set_for_numba_and_given_back_after_a_fault():
    before = numba.get_num_threads()
    with pytest.raises(KeyError), threads(1):
        assert numba.get_num_threads() == 1
        raise KeyError
    assert numba.get_num_threads() == before


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="Numba has one thread")
@pytest.mark.parametrize(("count", "other"), [(1, 2), (2, 1)])
def test_a_call_that_sets_the_threads_of_all_is_refused_and_they_are_given_back(count, other):
    before = numba.get_num_threads()
    said = f"has set Numba's threads to {other}, while {count} were timed; allowed: kernels that leave them"
    with pytest.raises(ValueError, match=said), threads(count):
        numba.set_num_threads(other)
    assert numba.get_num_threads() == before


@pytest.mark.parametrize("count", [0, 10_000])
def test_thread_counts_that_cannot_be_are_refused_with_what_is_allowed(count):
    most = numba.config.NUMBA_NUM_THREADS
    with pytest.raises(ValueError, match=f"threads is {count}; allowed: 1 to {most}"), threads(count):
        pass

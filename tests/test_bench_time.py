"""The command `bench`: what counts against its seconds, and what is said where they do not suffice."""

import dataclasses
import re
import time
from functools import partial
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest

from layernorm_backward.bench import Deadline, bench, contenders, prepare, schedule
from layernorm_backward.bench.block import DataBudget, block_rows, require_exact
from layernorm_backward.bench.data import draw
from layernorm_backward.bench.prepare import needs, ready
from layernorm_backward.bench.time_limit import TooSlowError
from layernorm_backward.kernels import recentred
from layernorm_backward.timing import sizing
from test_bench import OWN, SETTING, changed


def of_size(rows, hidden):
    return dataclasses.replace(SETTING, rows=rows, hidden=hidden)


def test_a_deadline_tells_what_took_a_tenth_of_the_time():
    ticks = count(10.0, 2.0)
    deadline = Deadline(20.0, clock=lambda: next(ticks), spent_s=1.5)
    deadline.note("importing")
    deadline._clock = lambda: 12.5
    deadline.note("making the data")
    assert deadline.spent_s() == 4.0 and deadline.left() == 16.0
    assert deadline.told() == " (of 20 s, importing took 3.5 s)"
    assert Deadline(1.0).told() == ""


def test_exact_results_are_of_three_rows_at_least_and_of_no_row_that_is_too_long(monkeypatch):
    monkeypatch.setattr(sizing, "memory_limit", lambda: 1 << 30)
    sizes = {(5000, 1024): 256, (5000, 3): 64, (9, 10**6): 3}
    assert {size: block_rows(of_size(*size)) for size in sizes} == sizes
    require_exact(of_size(3, 699_050))
    with pytest.raises(
        ValueError, match=r"a row of 699051 is too long .*; allowed here: --hidden up to 699050$"
    ):
        bench(OWN, of_size(9, 699_051), Deadline(60.0))
    require_exact(of_size(1, 2**21))
    monkeypatch.setattr(sizing, "memory_limit", lambda: 3 * 160 * 1000 + 3 * 3 * 1000 * 4)
    require_exact(of_size(3, 1000))
    with pytest.raises(ValueError, match="a row of 1100 is too long"):
        require_exact(of_size(3, 1100))


def test_data_that_would_take_too_long_are_not_made(naps):
    with pytest.raises(
        ValueError, match=r"data takes about 1\.8 s, over the 0\.5 s .* allowed: --seconds 4$"
    ):
        DataBudget(of_size(3, 600_000), Deadline(0.9, clock=lambda: 0.0))
    making = DataBudget(of_size(400_000, 24), Deadline(10.0, clock=lambda: 0.0))
    making.filled(10**6, naps() - 0.1)
    with pytest.raises(
        ValueError, match=r"takes about 1.*e\+02 s, over the 5 s .*: about --rows \d+, or --s"
    ):
        making.filled(10**6, naps() - 2.0)


def test_every_array_is_made_in_the_time_there_is():
    class Made:
        size = 0

        def filled(self, size, started):
            assert time.perf_counter() >= started
            self.size += size

    made, setting = Made(), dataclasses.replace(SETTING, rows=20_000, directions=("both",))
    draw(setting, made)
    assert made.size == setting.arrays_bytes(20_000)


def test_where_nothing_is_left_more_seconds_are_advised_and_no_rows(naps, monkeypatch):
    monkeypatch.setattr("layernorm_backward.bench.prepare.FEW", 24)
    deadline = Deadline(5.0, clock=lambda: 0.0, spent_s=6.1)
    deadline.note("importing and a first call")
    said = r"^recentred: one run, .*, and no time is left for it \(of 5 s, importing .* took 6.1 s[^)]*\); "
    with pytest.raises(ValueError, match=said + r"allowed: --seconds \d+$"):
        bench(OWN, SETTING, deadline)


@pytest.mark.parametrize(
    ("rows", "hidden", "few"), [(5, prepare.FEW + 1, 1), (5, prepare.FEW // 4, 4), (5, 24, 5)]
)
def test_few_rows_are_at_least_one_and_at_most_all(rows, hidden, few):
    assert prepare._few(SimpleNamespace(x=np.empty((rows, hidden), np.float32))) == few


def test_few_rows_that_take_longer_than_all_may_are_the_last(monkeypatch):
    monkeypatch.setattr("layernorm_backward.bench.prepare.FEW", 24 * 20)
    calls = []

    def slow(x, gamma, beta, eps, out=None):
        calls.append(len(x))
        time.sleep(0.4)
        return recentred.forward(x, gamma, beta, eps, out)

    with pytest.raises(TooSlowError, match="takes about"):
        needs(changed(OWN, forward=slow), draw(SETTING).arrays, 0.05)
    assert calls == [20, 20]


def test_a_baseline_that_is_too_slow_is_left_out_with_the_seconds_there_are(naps, monkeypatch):
    monkeypatch.setattr("layernorm_backward.bench.prepare.FEW", 24)

    def slow(x, gamma, beta, eps, out=None):
        time.sleep(0.1 * len(x))
        return recentred.forward(x, gamma, beta, eps, out)

    monkeypatch.setattr(contenders, "KERNELS", {"compact": changed(OWN, forward=slow)})
    monkeypatch.setattr(schedule, "MOST_REPEATS", 3)
    found = bench(OWN, of_size(8000, 24), Deadline(200.0)).set_index("against")
    told = r"takes about .* s, over the .* s there are for it( \(of 200 s, .* took .*\))?$"
    assert re.search(told, found.loc["compact", "reason"])


def test_a_run_that_took_longer_than_foreseen_is_the_last_one(naps):
    runs = []
    deadline = Deadline(0.7, clock=lambda: 0.4 * runs.count(4000))

    def slow(dy, saved, out=None):
        runs.append(len(dy))
        time.sleep(0.4 * (len(dy) == 4000))
        return recentred.backward(dy, saved, out)

    with pytest.raises(ValueError, match=r"own: one run, forward and backward, takes about 0\.[4-9]\d* s, "):
        bench(changed(OWN, backward=slow), of_size(4000, 24), deadline)
    assert runs.count(4000) == 1


def test_a_time_that_does_not_grow_with_the_rows_is_not_taken_times_the_rows(naps, monkeypatch):
    monkeypatch.setattr("layernorm_backward.bench.prepare.FEW", 24)

    def waiting(dy, saved, out=None):
        time.sleep(0.01)
        return recentred.backward(dy, saved, out)

    assert ready(changed(OWN, backward=waiting), draw(of_size(4000, 24)), 1.0).seconds["backward"] < 1


def test_a_baseline_whose_compilation_took_the_time_is_left_out_with_it(naps, monkeypatch):
    monkeypatch.setattr("layernorm_backward.bench.prepare.FEW", 24)
    compiled = []

    def compiles(x, gamma, beta, eps, out=None):
        time.sleep(0.0 if compiled else 50.0)
        compiled.append(True)
        return recentred.forward(x, gamma, beta, eps, out)

    monkeypatch.setattr(contenders, "KERNELS", {"compact": changed(OWN, forward=compiles)})
    monkeypatch.setattr(schedule, "MOST_REPEATS", 3)
    reason = bench(OWN, SETTING, Deadline(45.0)).set_index("against").loc["compact", "reason"]
    assert re.search(r"no time is left for it \(of 45 s, .*first calls of compact took 50 s\)$", reason)


def test_a_little_time_remains_for_timing_where_compiling_took_it_all(monkeypatch):
    """The clock of the timing stands still, so that no busy machine takes what remains."""
    monkeypatch.setattr("layernorm_backward.bench.Deadline", partial(Deadline, clock=lambda: 0.0))
    found = bench(OWN, dataclasses.replace(SETTING, seconds=20.0), Deadline(0.0))
    assert found["repeats"].iloc[0] > 1 and set(found["reason"]) == {""}

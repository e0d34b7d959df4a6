"""The command `bench`: what is measured, how it keeps to its seconds, and whether wrong results are timed."""

import ctypes
import dataclasses
import math
import re
import time

import numpy as np
import pytest

from bench_small import SETTING
from layernorm_backward import machine, stopwatch
from layernorm_backward.bench import Deadline, bench, contenders, report, schedule, steps, time_limit
from layernorm_backward.bench.data import changed as changed_inputs
from layernorm_backward.bench.data import draw, errors_u
from layernorm_backward.bench.prepare import Ready, needs, ready
from layernorm_backward.bench.time_limit import TooSlowError
from layernorm_backward.bench_options import BASELINES
from layernorm_backward.host import cgroup
from layernorm_backward.kernels import KERNELS, Kernel, recentred
from layernorm_backward.problem import Problem, run_kernel
from layernorm_backward.records import tables
from layernorm_backward.timing import sizing
from layernorm_backward.untrusted.fitting import takes_out
from layernorm_backward.untrusted.raised import broken

OWN = KERNELS["recentred"]


def changed(kernel: Kernel, **functions) -> Kernel:
    return dataclasses.replace(kernel, name="own", **functions)


def test_each_direction_is_held_against_its_roof_and_every_baseline(unhurried, monkeypatch):
    ticks = []
    directions = ("forward", "backward", "both")
    setting = dataclasses.replace(SETTING, directions=directions)
    found = bench(OWN, setting, unhurried, ticks.append)
    against = found.groupby("direction", sort=False)["against"].agg(list).to_dict()
    assert list(against) == list(directions)
    for direction, stream in zip(directions, ("copy", "triad", "copy_triad"), strict=True):
        roof, *others = against[direction]
        assert roof.startswith(stream) and sorted(others) == sorted(BASELINES)
    assert set(found["reason"]) == {""}
    assert (found["ratio"] > 0).all()
    assert len(ticks) == steps(OWN, setting)
    np.testing.assert_allclose(
        found["useful_gb_per_s"] * found["median_s"] * 1e9,
        found["direction"].map({"forward": 2, "backward": 3, "both": 5}) * 40 * 24 * 4,
    )


@pytest.mark.parametrize(("repeats", "known"), [(5, False), (6, True)])
def test_few_runs_give_no_interval_and_no_verdict(repeats, known, unhurried, monkeypatch):
    """Of five, all lie on one side of the median one time in sixteen."""
    monkeypatch.setattr(schedule, "MOST_REPEATS", repeats)
    compare = stopwatch.compare  # a repetition that lasts longer than foreseen would leave fewer
    monkeypatch.setattr(
        stopwatch, "compare", lambda calls, **how: compare(calls, **how | {"budget_s": math.inf})
    )
    found = bench(OWN, SETTING, unhurried)
    assert set(found["repeats"]) == {repeats}
    assert (found[["ratio_low", "ratio_high"]].notna() == known).all(axis=None)
    assert known or not found["differs"].any()
    said = report.text(OWN, SETTING, found)
    assert said.count("too few runs") == (0 if known else len(found))


def test_a_ratio_is_the_time_of_the_other_over_that_of_the_kernel(unhurried, naps, monkeypatch):
    monkeypatch.setattr(schedule, "MOST_REPEATS", 9)
    compare = stopwatch.compare
    monkeypatch.setattr(
        stopwatch, "compare", lambda calls, **how: compare(calls, **how | {"budget_s": math.inf})
    )

    def slow(dy, saved, out=None):
        time.sleep(50.0)
        return recentred.backward(dy, saved, out)

    found = bench(changed(OWN, backward=slow), SETTING, unhurried).set_index("against")
    assert found.loc["numpy_blocked", "ratio_high"] < 0.5
    assert found.loc["numpy_blocked", "differs"]
    assert found["median_s"].min() >= 50


@pytest.mark.parametrize("rest", [0, 1, 4])
def test_exact_results_of_repeated_rows_are_those_of_all_rows(rest, monkeypatch):
    monkeypatch.setattr("layernorm_backward.bench.block.BLOCK", 24 * 7)
    data = draw(dataclasses.replace(SETTING, rows=35 + rest))
    x, dy, _, gamma, beta, *_ = data.arrays
    assert len(data.exact.dx.hi) == 7 and np.array_equal(x[:7], x[7:14]) and not np.array_equal(x[0], x[1])
    y, *gradients = run_kernel(KERNELS["reference"], Problem(x, gamma, beta, dy), 1e-5)
    computed = dict(zip(("y", "dx", "dgamma", "dbeta"), (y, *gradients), strict=True))
    assert max(errors_u(data, **computed).values()) < 4
    gradients[1][0] *= 1.01
    assert errors_u(data, dgamma=gradients[1])["dgamma"] > 1e4
    gradients[0][-1] *= 2
    assert errors_u(data, dx=gradients[0])["dx"] > 1e6


@pytest.mark.parametrize("row", [0, 7, 37, 38])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_row_is_looked_at(row, dtype, monkeypatch):
    monkeypatch.setattr("layernorm_backward.bench.block.BLOCK", 24 * 7)
    data = draw(dataclasses.replace(SETTING, dtype=dtype, gamma_dtype=dtype))
    x, _, _, gamma, beta, *_ = data.arrays
    y, _ = OWN.forward(x, gamma, beta, 1e-5)
    assert errors_u(data, y=y)["y"] < 4
    y[row] = 0
    assert errors_u(data, y=y)["y"] > 100
    y[row, 0] = np.nan
    assert not errors_u(data, y=y)["y"] < np.inf


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_over_many_rows_stay_within_16_bits(dtype):
    """The sum of 70000 numbers about 1 is beyond float16."""
    setting = dataclasses.replace(SETTING, rows=70_000, hidden=3, dtype=dtype, gamma_dtype=dtype)
    data = draw(setting)
    assert data.exact.dbeta.hi.min() > 1000 and data.arrays.dy.dtype == data.arrays.x.dtype
    assert (data.exact.dbeta.hi.max() < 65504) == (dtype == "float16")
    assert max(ready(OWN, data, 60.0).errors_u.values()) < 8


@pytest.mark.parametrize("result", range(3))
def test_wrong_results_are_not_timed(result, unhurried):
    def wrong(dy, saved, out=None):
        found = recentred.backward(dy, saved, out)
        found[result][...] *= 1.001
        return found

    name = ("dx", "dgamma", "dbeta")[result]
    with pytest.raises(contenders.WrongError, match=f"own is wrong: {name} has an error of"):
        bench(changed(OWN, backward=wrong), SETTING, unhurried)


@pytest.mark.parametrize("name", ["x", "dy", "gamma", "beta"])
def test_an_input_that_is_written_to_is_named(name):
    data = draw(SETTING)
    assert changed_inputs(data) == []
    array = getattr(data.arrays, name)
    array[-1] = np.nextafter(array[-1], np.float32(9))
    assert changed_inputs(data) == [name]


def test_a_kernel_that_saves_y_is_timed_where_dx_is_not_written_over_it(unhurried):
    def forward(x, gamma, beta, eps, out=None):
        y, saved = recentred.forward(x, gamma, beta, eps, out)
        return y, (saved, y)

    def backward(dy, saved, out=None):
        return recentred.backward(dy, saved[0], out)

    kernel = changed(OWN, forward=forward, backward=backward)
    with pytest.raises(
        ValueError, match="own saves y, where dx is written; allowed: --direction both or all"
    ):
        bench(kernel, SETTING, unhurried)
    both = dataclasses.replace(SETTING, directions=("both",))
    assert bench(kernel, both, unhurried)["median_s"].notna().any()
    own_dx = dataclasses.replace(kernel, backward=lambda dy, saved: backward(dy, saved))
    assert bench(own_dx, SETTING, unhurried)["median_s"].notna().any()


def test_the_larger_error_of_two_backward_passes_is_told(unhurried):
    first = Ready(
        {}, {}, {"y": 1.0, "dx": 2.0, "dgamma": 3.0}, False, lambda: {"dx": 3.0, "dgamma": 1.0}, dict, 0.0
    )
    assert contenders._run_again("own", first, SETTING).errors_u == {"y": 1.0, "dx": 3.0, "dgamma": 3.0}


def test_a_baseline_that_needs_more_memory_than_there_is_is_left_out(unhurried, monkeypatch):
    monkeypatch.setattr(contenders, "KERNELS", {"compact": KERNELS["compact"]})
    monkeypatch.setattr(contenders, "needs", lambda kernel, *_: 1e15 if kernel is KERNELS["compact"] else 0.0)
    found = bench(OWN, SETTING, unhurried).set_index("against")
    assert found.loc["compact", "reason"] == "it takes 1e+06 GB more, too much here"


def test_a_wrong_baseline_is_left_out_with_its_error(unhurried, monkeypatch):
    def wrong(dy, saved, out=None):
        found = recentred.backward(dy, saved, out)
        found[0][...] *= 1.001
        return found

    monkeypatch.setattr(contenders, "KERNELS", {"compact": changed(OWN, backward=wrong)})
    found = bench(OWN, SETTING, unhurried).set_index("against")
    assert found.loc["compact", "reason"].startswith("compact is wrong: dx has an error of")
    assert np.isnan(found.loc["compact", "ratio"])


def test_a_refusal_of_our_own_stays_as_it_is_and_another_names_its_place(unhurried):
    def refuses(dy, saved, out=None):
        raise ValueError("only five rows")

    error = ValueError("only five rows")
    assert broken(OWN, "backward", error) is error
    with pytest.raises(
        ValueError, match=r"^own: backward raised ValueError: only five rows \(test_bench.py:"
    ):
        bench(changed(OWN, backward=refuses), SETTING, unhurried)


def test_each_comparison_prints_its_own_pair_of_times(unhurried, monkeypatch):
    found = bench(OWN, SETTING, unhurried)
    found["median_s"] = [0.001 * (1 + row) for row in range(len(found))]
    found["waited_share"] = 0.0
    header, *lines = report.text(OWN, SETTING, found).splitlines()[-3 - len(found) : -2]
    place = header.index("your time") + len("your time")
    assert [line[:place].split("  ")[-1].strip() for line in lines] == ["1 ms", "2 ms", "3 ms", "4 ms"]


def test_what_else_ran_is_remarked_upon(unhurried, monkeypatch):
    found = bench(OWN, SETTING, unhurried)
    assert found["waited_share"].dropna().between(0, 1).all()
    for share, remarked in ((0.1, False), (0.25, True)):
        found["waited_share"] = [0.0, share, *[0.0] * (len(found) - 2)]
        said = "other processes ran: in up to 25% of the samples a thread waited for a core"
        assert (said in report.text(OWN, SETTING, found)) is remarked


@pytest.mark.parametrize(("threads", "said"), [(1, "the machine was busy"), (2, "use --threads 1")])
def test_a_roof_that_is_far_slower_than_the_kernel_is_remarked_upon(threads, said, unhurried, monkeypatch):
    found = bench(OWN, SETTING, unhurried)
    monkeypatch.setattr("layernorm_backward.bench.setting.most_threads", lambda: 2)
    setting = dataclasses.replace(SETTING, rows=1, threads=threads)
    for low, remarked in ((1.4, False), (1.6, True)):
        found["ratio_low"] = [low, *[9.0] * (len(found) - 1)]
        text = report.text(OWN, setting, found)
        assert (said in text and "so it is not a limit" in text) is remarked
    assert text.startswith("recentred: 1 row of 24 ")


def test_a_kernel_that_leaves_its_results_unwritten_is_wrong(unhurried):
    def idle(dy, saved, out=None):
        return out if len(dy) == 40 else recentred.backward(dy, saved, out)

    with pytest.raises(contenders.WrongError, match="dx has an error"):
        bench(changed(OWN, backward=idle), SETTING, unhurried)


def test_results_of_an_earlier_run_are_not_taken_for_those_of_the_last(unhurried):
    """It writes while its results are looked at before the timed runs, and never again."""
    runs = []

    def stale(dy, saved, out=None):
        runs.append(len(dy))
        return out if runs.count(40) > 4 else recentred.backward(dy, saved, out)

    with pytest.raises(contenders.WrongError, match="a run of own after the timed ones is wrong: dx has an"):
        bench(changed(OWN, backward=stale), SETTING, unhurried)


def test_a_y_of_an_earlier_run_is_not_taken_for_that_of_the_last(unhurried):
    runs = []

    def stale(x, gamma, beta, eps, out=None):
        runs.append(len(x))
        idle = runs.count(40) > 4
        y, saved = recentred.forward(x, gamma, beta, eps, None if idle else out)
        return (out if idle else y), saved

    setting = dataclasses.replace(SETTING, directions=("forward",))
    with pytest.raises(contenders.WrongError, match="a run of own after the timed ones is wrong: y has an"):
        bench(changed(OWN, forward=stale), setting, unhurried)


@pytest.mark.parametrize("direction", ["backward", "both"])
@pytest.mark.parametrize(
    ("result", "where"), [("y", "past the end of"), ("dbeta", "before the beginning of")]
)
def test_what_is_written_beside_a_result_is_seen(result, where, direction, unhurried):
    def beside(array):
        ends = np.lib.array_utils.byte_bounds(array)
        address = ends[1] if where.startswith("past") else ends[0] - 1
        (ctypes.c_char * 1).from_address(address)[0] = b"7"

    def forward(x, gamma, beta, eps, out=None):
        found = recentred.forward(x, gamma, beta, eps, out)
        if len(x) == 40 and out is not None and result == "y":
            beside(out)
        return found

    def backward(dy, saved, out=None):
        found = recentred.backward(dy, saved, out)
        if len(dy) == 40 and out is not None and result == "dbeta":
            beside(out[2])
        return found

    setting = dataclasses.replace(SETTING, directions=(direction,))
    with pytest.raises(contenders.WrongError, match=f"own writes {where} {result}$"):
        bench(changed(OWN, forward=forward, backward=backward), setting, unhurried)


def test_a_y_that_the_backward_pass_writes_to_is_named(unhurried):
    def forward(x, gamma, beta, eps):
        y, saved = recentred.forward(x, gamma, beta, eps)
        return y, (saved, y)

    def backward(dy, saved):
        dx, *sums = recentred.backward(dy, saved[0])
        saved[1][...] = dx
        return saved[1], *sums

    with pytest.raises(contenders.WrongError, match="the backward pass of own writes to y"):
        bench(changed(OWN, forward=forward, backward=backward), SETTING, unhurried)


def test_a_kernel_without_out_is_timed_with_results_of_its_own(unhurried, monkeypatch):
    def forward(x, gamma, beta, eps):
        return recentred.forward(x, gamma, beta, eps)

    def backward(dy, saved):
        return recentred.backward(dy, saved)

    kernel = changed(OWN, forward=forward, backward=backward)
    assert takes_out(OWN.backward) and not takes_out(backward)
    with_out, without = (needs(one, draw(SETTING).arrays) for one in (OWN, kernel))
    assert without - with_out > 0.9 * 40 * 24 * 4
    assert bench(kernel, SETTING, unhurried)["median_s"].notna().all()


def test_a_kernel_that_would_take_too_long_is_not_started_on_all_rows(naps, monkeypatch):
    monkeypatch.setattr("layernorm_backward.bench.prepare.FEW", 24)
    most = []

    def slow(x, gamma, beta, eps, out=None):
        most.append(len(x))
        time.sleep(len(x))
        return recentred.forward(x, gamma, beta, eps, out)

    setting = dataclasses.replace(SETTING, rows=4000)
    with pytest.raises(ValueError, match=r"own: one run, .* takes about .* s, .* allowed: about --rows \d"):
        bench(changed(OWN, forward=slow), setting, Deadline(600.0))
    assert max(most) < 4000


@pytest.mark.parametrize(
    ("lasts", "limit_s", "found_s", "left"),
    [
        ([0.03, 0.0, 0.0], 1.0, 0.0, 1),  # it had to wait
        ([0.11, 0.0, 0.0], 1.0, 0.0, 1),  # it compiled
        ([0.11, 0.12, 0.0], 1.0, 0.11, 1),
        ([0.11, 0.0], 0.1, 0.11, 1),
    ],
)
def test_a_run_counts_by_its_shortest_try_and_a_long_one_is_tried_twice(lasts, limit_s, found_s, left, naps):
    waits = iter(lasts)
    found = time_limit.seconds(lambda: time.sleep(next(waits)), 0.01, limit_s)
    assert found == pytest.approx(found_s, abs=0.005) and len(list(waits)) == left


def test_a_kernel_that_compiles_for_each_size_is_timed(naps, monkeypatch):
    monkeypatch.setattr("layernorm_backward.bench.prepare.FEW", 20 * SETTING.hidden)
    seen = set()

    def forward(x, gamma, beta, eps, out=None):
        if len(x) not in seen:
            time.sleep(30.0)
        seen.add(len(x))
        return recentred.forward(x, gamma, beta, eps, out)

    monkeypatch.setattr(schedule, "MOST_REPEATS", 3)
    setting = dataclasses.replace(SETTING, rows=20 * time_limit.GROWTH**2)
    assert bench(changed(OWN, forward=forward), setting, Deadline(900.0))["ratio"].notna().all()


def test_slow_baselines_are_left_out_with_their_reason(naps, monkeypatch):
    def slow(dy, saved, out=None):
        time.sleep(80.0)
        return recentred.backward(dy, saved, out)

    kernels = dict(KERNELS) | {"compact": changed(OWN, backward=slow)}
    monkeypatch.setattr(contenders, "KERNELS", kernels)
    monkeypatch.setattr(contenders, "BASELINES", ("compact", "numpy_blocked"))
    monkeypatch.setattr(schedule, "MOST_REPEATS", 3)
    found = bench(OWN, SETTING, Deadline(280.0)).set_index("against")
    assert re.fullmatch(r"a repetition takes .* s, over the .* s left", found.loc["compact", "reason"])
    assert np.isnan(found.loc["compact", "ratio"])
    assert found.loc["numpy_blocked", "ratio"] > 0


def test_seconds_are_kept_and_a_slow_kernel_runs_less_often(naps, monkeypatch):
    monkeypatch.setattr(schedule, "MOST_REPEATS", 50)

    def runs(pause: float) -> tuple[int, float]:
        """Repetitions and seconds; without a limit, 30 s in each of 200 runs are 6000 s."""

        def slow(dy, saved, out=None):
            time.sleep(pause)
            return recentred.backward(dy, saved, out)

        started = naps()
        found = bench(changed(OWN, backward=slow), SETTING, Deadline(800.0))
        return found["repeats"].sum(), naps() - started

    (many, _), (few, spent_s) = runs(0.0), runs(30.0)
    assert few < many / 2
    assert 400 < spent_s < 1000


def test_the_first_run_over_all_rows_has_a_limit():
    with pytest.raises(TooSlowError, match="takes about"):
        ready(OWN, draw(dataclasses.replace(SETTING, rows=20_000)), limit_s=1e-9)


def test_time_is_shared_by_the_root_of_the_cost_and_a_third_goes_to_the_first():
    assert schedule.repetitions({"a": 0.01, "b": 0.01}, 1.001) == 50
    assert schedule.repetitions({"a": 0.04, "b": 0.01}, 1.0) == int(2 / 3 / 0.04)
    assert schedule.repetitions({"a": 0.01, "b": 1.0}, 1.0) == int(schedule.FIRST_SHARE / 0.01)
    assert schedule.repetitions({"a": 3.0, "b": 1.0}, 1.0) == 1
    assert schedule.repetitions({"a": 1e-9}, 1e3) == schedule.MOST_REPEATS


def test_sizes_beyond_the_memory_are_refused_with_what_would_fit(monkeypatch, unhurried):
    monkeypatch.setattr(sizing, "memory_limit", lambda: 3 * 24 * 4 * 30)
    with pytest.raises(ValueError, match=r"allowed here: --rows up to 30$"):
        bench(OWN, SETTING, unhurried)
    both = dataclasses.replace(SETTING, directions=("both",))
    with pytest.raises(ValueError, match=r"allowed here: --rows up to 22$"):
        bench(OWN, both, unhurried)
    monkeypatch.setattr(sizing, "memory_limit", lambda: 3 * 4 * 23)
    with pytest.raises(ValueError, match=r"allowed here: --rows 1 and --hidden up to 23$"):
        bench(OWN, SETTING, unhurried)


def test_a_kernel_that_needs_more_memory_than_there_is_is_refused_with_what_would_fit(monkeypatch, unhurried):
    monkeypatch.setattr(contenders, "available_bytes", lambda: 100.0)
    with pytest.raises(
        ValueError, match=r"recentred takes .* GB beside the arrays; allowed here: --rows up to"
    ):
        bench(OWN, SETTING, unhurried)


def test_kernels_have_a_part_of_what_is_left_beside_the_arrays_here_or_in_a_container(monkeypatch):
    monkeypatch.setattr(cgroup, "available", lambda: 1000)
    assert schedule.available_bytes() == 1000 * schedule.SHARE
    whole = SETTING.arrays_bytes(SETTING.rows)
    monkeypatch.setattr(cgroup, "available", lambda: whole / schedule.SHARE)
    assert schedule.fitting_rows(SETTING, whole) == SETTING.rows


def test_a_table_is_read_as_it_was_written(tmp_path, unhurried):
    found = bench(OWN, SETTING, unhurried)
    tables.write(found, tmp_path / "mine.csv", stem="bench")
    again = tables.read(tmp_path / "mine.csv", stem="bench")
    assert again.drop(columns="differs").equals(found.drop(columns="differs"))
    with pytest.raises(tables.TableError, match="no table is called 'mine'"):
        tables.read(tmp_path / "mine.csv")


def test_residency_follows_the_cache(monkeypatch, unhurried):
    monkeypatch.setattr(machine, "last_level_cache_bytes", lambda: 3 * 40 * 24 * 4 // 4)
    assert set(bench(OWN, SETTING, unhurried)["residency"]) == {"memory"}

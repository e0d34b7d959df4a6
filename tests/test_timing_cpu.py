"""The table of times: which rows there are, what stands beside them, and that wrong kernels are not timed."""

import contextlib
import dataclasses
import time

import numpy as np
import pandas as pd
import pytest

from layernorm_backward import machine, stopwatch
from layernorm_backward.experiments import timing_cpu
from layernorm_backward.experiments._rounds import known_s, round_budgets
from layernorm_backward.experiments._sets import cells
from layernorm_backward.kernels import KERNELS
from layernorm_backward.timing import cell_roof, pace, sizing
from layernorm_backward.timing.timed import seed_of
from planned_samples import planned, samples_of

PUBLISHED = {
    "kernels": ["compact", "overcached", "numba_fused"],
    "directions": ["forward", "backward"],
    "sizes": [(2, 3, 32)],
    "dtypes": ["float64"],
    "gamma_dtypes": ["same"],
    "threads": [1, "all"],
}
ARGUMENTS = {
    "kernels": ["compact", "overcached", "numba_fused"],
    "threaded": ["numba_fused"],
    "sets": {"published": PUBLISHED},
    "rounds": 1,
    "repeats": 2,
    "at_least": 2,
    "budget_s": 0.0,
    "error_elements": 128,
    "error_limit_u": 100.0,
    "seed": 2,
}


def only(*kernels, **changed):
    return {
        "kernels": list(kernels),
        "threaded": [],
        "sets": {"one": PUBLISHED | {"kernels": list(kernels)} | changed},
    }


@pytest.fixture(scope="module")
def measured():
    return timing_cpu.run(**ARGUMENTS)


def test_numpy_kernels_have_one_thread_and_threaded_ones_all(measured):
    found, _ = measured
    counts = found.groupby("kernel")["threads"].agg(set)
    assert counts["compact"] == counts["overcached"] == {1}
    assert counts["numba_fused"] == {1, machine.usable_cores()}


def test_nothing_is_timed_where_no_kernel_has_a_row():
    """Baselines run beside those that have one, and have none themselves with more than one thread."""
    _, samples = timing_cpu.run(**ARGUMENTS | only("compact", "overcached", threads=[1, 2]))
    assert set(samples["threads"]) == {1}


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


def test_where_baselines_have_no_rows_the_kernel_is_timed_beside_the_roof_without_them(monkeypatch):
    """They would disturb it; their ratios are of its samples beside them."""
    groups = []
    seconds = {"triad": 2.0, "triad_nt": 9.0, "numba_fused": 4.0, "compact": 12.0, "overcached": 6.0}
    seconds[f"numba_fused{timing_cpu.BESIDE}"] = 3.0

    def compare(calls, **how):
        groups.append(set(calls))
        assert set(calls) <= set(how["known_s"])
        return samples_of({name: np.full(6, seconds.get(name, 2.0)) for name in calls})

    monkeypatch.setattr(stopwatch, "compare", compare)
    monkeypatch.setattr(timing_cpu, "too_many", lambda count: "")
    changed = {"threads": [2], "directions": ["backward"]}
    found, samples = timing_cpu.run(**ARGUMENTS | {"sets": {"one": PUBLISHED | changed}})
    alone, beside = groups
    assert alone == {"triad", "triad_nt", "triad_again", "numba_fused"}
    assert beside == {"compact", "overcached", f"numba_fused{timing_cpu.BESIDE}"}
    (row,) = found.to_dict("records")
    assert row["roof_fraction"] == 2 / 4 and row["median_s"] == 4 and row["repeats"] == 6
    assert row["compact_ratio"] == 12 / 3 and row["overcached_ratio"] == 6 / 3
    assert samples.groupby("name")["repeat"].agg(set).to_dict() == {
        name: set(range(6)) if name in alone else set(range(6, 12)) for name in alone | beside
    }


@pytest.mark.parametrize("threads", [[2], [1, 2]])
def test_baselines_without_rows_have_all_their_repetitions_in_the_first_round(monkeypatch, threads):
    """Each round of theirs would need their forward passes again. On one thread they have rows."""
    seen, again, renewed = [], [], timing_cpu.renewed

    def compare(calls, **how):
        beside = f"numba_fused{timing_cpu.BESIDE}" in calls
        seen.append((beside, {"compact", "overcached"} <= set(calls), how["at_least"]))
        return samples_of({name: np.full(how["at_least"], 2.0) for name in calls})

    monkeypatch.setattr(stopwatch, "compare", compare)
    monkeypatch.setattr(timing_cpu, "too_many", lambda count: "")
    monkeypatch.setattr(stopwatch, "threads", lambda count: contextlib.nullcontext())
    monkeypatch.setattr(
        timing_cpu, "renewed", lambda kernel, *given: again.append(kernel.name) or renewed(kernel, *given)
    )
    sets = {"one": PUBLISHED | {"threads": threads, "directions": ["backward"]}}
    changed = {"sets": sets, "rounds": 2, "repeats": 8, "at_least": 7}
    found, samples = timing_cpu.run(**ARGUMENTS | changed)
    alone = [(False, True, 4), (False, True, 3)] if 1 in threads else []
    first, later = [(False, False, 4), (True, True, 7)], [(False, False, 3)]
    assert seen == [*alone[:1], *first, *alone[1:], *later]
    assert again == (["compact", "overcached"] if 1 in threads else [])
    all_threads = found[found["threads"] == 2]
    assert (all_threads["compact_ratio_low"] == 1).all() and (all_threads["repeats"] == 7).all()
    apart = samples[(samples["threads"] == 2) & (samples["name"] == "compact")]
    assert len(apart) == 7 and set(apart["round"]) == {0}


def test_the_samples_hold_kernels_and_roofs_of_each_cell(measured):
    _, samples = measured
    names = samples.groupby(["direction", "threads"])["name"].agg(set)
    kernels = {"compact", "overcached", "numba_fused"}
    assert names["backward", 1] == kernels | {"triad", "triad_nt", "triad_again"}
    assert "compact" in names["forward", machine.usable_cores()]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("roof_fraction", 2 / 4),
        ("compact_ratio", 12 / 4),
        ("overcached_ratio", 6 / 4),
        ("roof_gb_per_s", 3 * 6 * 32 * 8 / 2 / 1e9),
    ],
)
def test_times_are_held_against_the_roof_and_those_of_the_baselines_against_them(
    monkeypatch, column, expected
):
    """The median of the roof is not its 20 % quantile."""
    seconds = {"triad_nt": 9.0, "numba_fused": 4.0, "compact": 12.0, "overcached": 6.0}
    steady = {name: np.full(6, its) for name, its in seconds.items()}
    planned(monkeypatch, 6, triad=np.array([1.0, 1.0, 2.0, 2.0, 2.0, 3.0]), **steady)
    found, _ = timing_cpu.run(
        **ARGUMENTS | {"sets": {"one": PUBLISHED | {"directions": ["backward"], "threads": [1]}}}
    )
    assert found.set_index("kernel").loc["numba_fused", column] == pytest.approx(expected)


def test_errors_are_small_and_saved_bytes_are_those_of_the_kernel(measured):
    found, _ = measured
    assert found["error_u_max"].between(0, 10).all()
    tensor, row, vector = 6 * 32 * 8, 6 * 8, 32 * 8
    compact = found[found["kernel"] == "compact"]
    assert set(compact["saved_bytes"]) == {tensor + row + vector}
    assert set(compact["saved_extra_bytes"]) == {tensor + row}


def test_every_cell_is_timed_in_every_round():
    seen, compare = [], stopwatch.compare

    def noted(calls, **how):
        seen.append((how["seed"], tuple(calls)))
        return compare(calls, **how)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(timing_cpu.stopwatch, "compare", noted)
        patched.setattr(cell_roof, "SLOWER", np.inf)
        changed = {"rounds": 2, "repeats": 5, "at_least": 5}
        found, samples = timing_cpu.run(**ARGUMENTS | only("overcached", threads=[1]) | changed)
    directions = [calls[0] for _, calls in seen]
    assert directions == ["copy", "triad"] * 2
    assert len({seed for seed, _ in seen}) == 4  # no two cells or rounds share an order of calls
    repeated = samples.groupby(["direction", "name"])["repeat"].agg(list)
    assert all(sorted(numbers) == [0, 1, 2, 3, 4] for numbers in repeated)
    assert (found["repeats"] == 5).all()
    assert samples.groupby("round")["repeat"].agg(set).tolist() == [{0, 1, 2}, {3, 4}]


@pytest.mark.parametrize(("slow", "later"), [("triad_nt", {"triad"}), ("triad", {"triad", "triad_nt"})])
def test_a_stream_that_cannot_be_the_roof_runs_in_the_first_round_only(monkeypatch, slow, later):
    """The one that is expected to be the roof, here that with ordinary stores, runs in all."""
    compare = stopwatch.compare

    def timed(calls, **how):
        found = compare(calls, **how)
        return found.assign(seconds=found["name"].map(lambda name: 2.0 if name == slow else 1.0))

    monkeypatch.setattr(timing_cpu.stopwatch, "compare", timed)
    changed = {"rounds": 2, "repeats": 6, "at_least": 6}
    found, samples = timing_cpu.run(
        **ARGUMENTS | only("compact", directions=["backward"], threads=[1]) | changed
    )
    streams = samples[samples["name"].isin(cell_roof.ROOFS["backward"])].groupby("round")["name"].agg(set)
    assert streams[0] == {"triad", "triad_nt"} and streams[1] == later
    (row,) = found.to_dict("records")
    assert row["roof_operation"] == ({"triad", "triad_nt"} - {slow}).pop()
    assert row["repeats"] == 6 and row["roof_fraction"] == 1


@pytest.mark.parametrize(("limit_u", "runs"), [(100.0, 1 + 2), (0.0, 1)])
def test_results_are_looked_at_in_the_first_round_and_those_that_are_wrong_timed_in_none(limit_u, runs, naps):
    seen, compact = [], KERNELS["compact"]

    def counted(dy, saved, out=None):
        seen.extend([1] * (dy.shape == (2, 3, 32)))
        return compact.backward(dy, saved, out)

    changed = {"rounds": 2, "repeats": 2, "at_least": 2, "error_limit_u": limit_u}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(timing_cpu, "KERNELS", {"compact": dataclasses.replace(compact, backward=counted)})
        patched.setattr(pace, "untimed", lambda seconds: 0)
        patched.setattr(stopwatch, "calibrated", lambda call, minimum_s: pace.Pace(1, 1.0))
        patched.setattr(pace.Pace, "after", lambda self, seconds, minimum_s: self)
        found, samples = timing_cpu.run(
            **ARGUMENTS | only("compact", directions=["backward"], threads=[1]) | changed
        )
    (row,) = found.to_dict("records")
    assert len(seen) == runs
    assert (row["repeats"] == 2) == (runs > 1) and samples.empty == (runs == 1)
    assert row["reason"].startswith("wrong: an error of") == (runs == 1)


def test_what_is_known_of_a_call_is_its_median_in_the_rounds_before():
    parts = [
        pd.DataFrame({"name": ["a", "a", "b"], "seconds": seconds}) for seconds in ([1, 2, 5], [3, 9, 7])
    ]
    assert known_s([]) == {} and known_s(parts) == {"a": 2.5, "b": 6}


def test_a_long_call_is_tried_in_the_first_round_only(naps):
    runs = []

    def long():
        runs.append(1)
        time.sleep(3e-3)

    first = stopwatch.compare({"a": long}, repeats=2, seed=0)
    tried = len(runs)
    stopwatch.compare({"a": long}, repeats=2, seed=1, known_s=known_s([first]))
    assert len(runs) - tried == 2 * (1 + pace.SETTLED) < tried


@pytest.mark.parametrize("rounds", [0, 3])
def test_rounds_without_a_repetition_are_refused(rounds):
    with pytest.raises(ValueError, match=rf"rounds is {rounds}; allowed: 1 to 2, the least repetitions"):
        round_budgets(rounds, 9, 2, 1.0, 0)


def test_rounds_share_repetitions_and_seconds():
    assert round_budgets(3, 25, 7, 0.3, 10) == [
        (9, 3, pytest.approx(0.1), 10),
        (8, 2, pytest.approx(0.1), 11),
        (8, 2, pytest.approx(0.1), 12),
    ]


def test_a_wrong_kernel_is_not_timed_and_the_row_says_why(monkeypatch):
    compact = KERNELS["compact"]

    def wrong(dy, saved, out=None):
        found = compact.backward(dy, saved, out)
        found[0][...] *= 1.001
        return found

    kernels = {"compact": dataclasses.replace(compact, backward=wrong), "overcached": KERNELS["overcached"]}
    monkeypatch.setattr(timing_cpu, "KERNELS", kernels)
    found, samples = timing_cpu.run(**ARGUMENTS | only(*kernels, threads=[1]))
    row = found[(found["kernel"] == "compact") & (found["direction"] == "backward")].iloc[0]
    assert row["reason"].startswith("wrong: an error of") and np.isnan(row["median_s"])
    other = found[(found["kernel"] == "overcached") & (found["direction"] == "backward")].iloc[0]
    assert other["median_s"] > 0 and np.isnan(other["compact_ratio"])
    assert "compact" not in set(samples.loc[samples["direction"] == "backward", "name"])


@pytest.mark.parametrize("size, where", [(100, "cache"), (101, "partly"), (399, "partly"), (400, "memory")])
def test_residency_is_memory_from_four_times_the_last_level_cache_on(monkeypatch, size, where):
    monkeypatch.setattr(machine, "last_level_cache_bytes", lambda: 100)
    assert sizing.residency(size) == where


def test_a_cache_whose_size_is_not_told_is_assumed_for_sizes_and_residency_alike(monkeypatch):
    monkeypatch.setattr(machine, "last_level_cache_bytes", lambda: 0)
    assert sizing.beyond_cache() == 256 << 20
    found = [sizing.residency(size) for size in (64 << 20, (256 << 20) - 1, sizing.beyond_cache())]
    assert found == ["cache", "partly", "memory"]
    rows, _ = timing_cpu.run(**ARGUMENTS | only("compact", threads=[1]))
    assert set(rows["residency"]) == {"cache"} and set(rows["note"]) == {
        "cache size not told; 64 MiB assumed"
    }


def test_rows_follow_from_the_cache_and_a_limit_on_memory_is_reported(monkeypatch):
    monkeypatch.setattr(machine, "last_level_cache_bytes", lambda: 3000)
    assert sizing.sized(10, "float32", "backward", "beyond_cache", 1 << 20) == (100, "")
    assert sizing.sized(10, "float16", "both", "beyond_cache", 1 << 20) == (150, "")
    rows, note = sizing.sized(10, "float32", "backward", "beyond_cache", 6000)
    assert rows == 50 and note == "12000 bytes were wanted; a third of the available memory holds 6000"
    with pytest.raises(ValueError, match="a row of 10 takes 120 bytes; allowed: 100"):
        sizing.sized(10, "float32", "backward", "beyond_cache", 100)


def test_a_cell_of_two_sets_is_timed_once_with_the_kernels_of_both():
    one = PUBLISHED | {"kernels": ["compact"], "directions": ["forward"], "threads": [1]}
    wanted = cells({"one": one, "two": one | {"kernels": ["numba_fused", "compact"]}}, 1 << 20)
    assert list(wanted.values()) == [{1: ["compact", "numba_fused"]}]


def test_gamma_is_float32_beside_16_bits_only():
    both = PUBLISHED | {"dtypes": ["float32", "bfloat16"], "gamma_dtypes": ["same", "float32"]}
    beside = {(cell.dtype, cell.gamma_dtype) for cell in cells({"one": both}, 1 << 20)}
    assert beside == {("float32", "float32"), ("bfloat16", "bfloat16"), ("bfloat16", "float32")}


def test_forward_then_backward_writes_both_results_and_counts_five_accesses():
    found, _ = timing_cpu.run(**ARGUMENTS | only("compact", directions=["both"], threads=[1]))
    row = found.iloc[0]
    assert row["roof_operation"].startswith("copy_triad") and row["bytes"] == 4 * 6 * 32 * 8
    assert row["useful_gb_per_s"] == pytest.approx(5 * 6 * 32 * 8 / row["median_s"] / 1e9)


def test_unknown_kernels_are_refused():
    with pytest.raises(ValueError, match="unknown kernel 'compat'"):
        timing_cpu.run(**ARGUMENTS | only("compat"))


@pytest.mark.parametrize(
    ("residency", "again"), [("cache", "copy"), ("partly", "copy_nt"), ("memory", "copy_nt")]
)
def test_the_stream_that_is_run_again_has_ordinary_stores_in_the_cache_only(residency, again):
    calls = cell_roof.with_noise({"copy": int, "copy_nt": int}, residency)
    assert set(calls) == {"copy", "copy_nt", f"{again}_again"}


def test_a_dtype_that_a_kernel_lacks_leaves_a_row_with_its_reason(monkeypatch):
    lacking = dataclasses.replace(KERNELS["compact"], unsupported={"float64": "no doubles here"})
    monkeypatch.setattr(timing_cpu, "KERNELS", {"compact": lacking})
    found, samples = timing_cpu.run(**ARGUMENTS | only("compact"))
    assert set(found["reason"]) == {"no doubles here"}
    assert found["median_s"].isna().all() and samples.empty


def test_beyond_the_cache_times_are_held_against_the_stream_in_pages_too(monkeypatch):
    """That is no roof, however fast it is."""
    steady = {"triad": 3.0, "triad_nt": 2.0, "triad_pages": 1.0, "numba_fused": 4.0, "compact": 12.0}
    planned(monkeypatch, 6, **{name: np.full(6, its) for name, its in steady.items()})
    one = PUBLISHED | {"directions": ["backward"], "threads": [1]}
    arguments = ARGUMENTS | {"sets": {"one": one}}
    inside, _ = timing_cpu.run(**arguments)
    assert inside["pages_fraction"].isna().all()
    monkeypatch.setattr(sizing, "residency", lambda size: "memory")
    beyond, _ = timing_cpu.run(**arguments)
    row = beyond.set_index("kernel").loc["numba_fused"]
    assert row["pages_fraction"] == pytest.approx(1 / 4)
    assert row["roof_fraction"] == pytest.approx(2 / 4) and row["roof_operation"] == "triad_nt"


def test_what_a_kernel_takes_is_expected_of_the_streams_in_the_first_round():
    """So none of those that last long is tried before it is sampled."""
    known, compare = [], stopwatch.compare

    def noted(calls, **how):
        known.append((set(calls), how["known_s"]))
        return compare(calls, **how)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(timing_cpu.stopwatch, "compare", noted)
        timing_cpu.run(**ARGUMENTS | only("compact", directions=["backward"], threads=[1]))
    ((calls, known_s),) = known
    assert {"triad", "triad_again", "compact"} <= calls <= set(known_s)
    assert known_s["triad"] == known_s["compact"] > 0


def test_the_streams_are_loaded_before_the_first_round_alone(monkeypatch):
    """So no sample of the first round holds that."""
    steps, compare = [], stopwatch.compare
    monkeypatch.setattr(cell_roof, "load", lambda direction, arrays: steps.append(direction))
    monkeypatch.setattr(
        stopwatch, "compare", lambda *calls, **how: steps.append("") or compare(*calls, **how)
    )
    one = only("compact", directions=["backward"], threads=[1])
    timing_cpu.run(**ARGUMENTS | one | {"rounds": 2})
    assert steps == ["backward", "", ""]


def test_only_kernels_that_save_arrays_of_the_size_of_x_run_forward_in_a_later_round(monkeypatch):
    """The calls of others are kept from round to round: what they hold takes little memory."""
    again, renewed = [], timing_cpu.renewed
    monkeypatch.setattr(
        timing_cpu, "renewed", lambda kernel, *given: again.append(kernel.name) or renewed(kernel, *given)
    )
    backward = PUBLISHED | {"directions": ["backward"], "threads": [1]}
    found, _ = timing_cpu.run(**ARGUMENTS | {"sets": {"one": backward}, "rounds": 2})
    assert again == ["compact", "overcached"]
    assert (found["repeats"] == 2).all() and len(found) == 3


def test_the_order_of_calls_belongs_to_the_cell_and_is_the_same_in_each_run():
    assert seed_of(1, ("float32", 64), 2) == 2654218661
    assert (
        len({seed_of(seed, hidden, count) for seed in (1, 2) for hidden in (64, 65) for count in (1, 2)}) == 8
    )

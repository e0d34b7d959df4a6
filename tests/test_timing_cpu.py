"""The table of times: which rows there are, what stands beside them, and that wrong kernels are not timed."""

import dataclasses

import numpy as np
import pytest

from layernorm_backward import machine, stopwatch
from layernorm_backward.experiments import timing_cpu
from layernorm_backward.experiments._rounds import shares
from layernorm_backward.experiments._sets import cells
from layernorm_backward.kernels import KERNELS
from layernorm_backward.timing import sizing

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
    kernels = {"compact", "overcached", "numba_fused"}
    assert names["backward", 1] == kernels | {"triad", "triad_nt", "triad_again"}
    assert "compact" in names["forward", machine.usable_cores()]


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
        changed = {"rounds": 2, "repeats": 5, "at_least": 5}
        found, samples = timing_cpu.run(**ARGUMENTS | only("overcached", threads=[1]) | changed)
    directions = [calls[0] for _, calls in seen]
    assert directions == ["copy", "triad"] * 2
    assert len({seed for seed, _ in seen}) == 2
    repeated = samples.groupby(["direction", "name"])["repeat"].agg(list)
    assert all(sorted(numbers) == [0, 1, 2, 3, 4] for numbers in repeated)
    assert (found["repeats"] == 5).all()


def test_a_kernel_that_is_wrong_in_any_round_has_no_time(monkeypatch):
    runs = []

    def wrong_later(dy, saved, out=None):
        found = KERNELS["compact"].backward(dy, saved, out)
        if dy.ndim > 2:
            runs.append(1)
            found[0][...] *= 1 + 0.001 * (len(runs) > 6)
        return found

    kernels = {"compact": dataclasses.replace(KERNELS["compact"], backward=wrong_later)}
    monkeypatch.setattr(timing_cpu, "KERNELS", kernels)
    changed = {"rounds": 2, "repeats": 2, "at_least": 2}
    found, _ = timing_cpu.run(**ARGUMENTS | only("compact", directions=["backward"], threads=[1]) | changed)
    (row,) = found.to_dict("records")
    assert row["reason"].startswith("wrong: an error of") and np.isnan(row["median_s"])


@pytest.mark.parametrize("rounds", [0, 3])
def test_rounds_without_a_repetition_are_refused(rounds):
    with pytest.raises(ValueError, match=rf"rounds is {rounds}; allowed: 1 to 2, the least repetitions"):
        shares(rounds, 9, 2, 1.0, 0)


def test_rounds_share_repetitions_and_seconds():
    assert shares(3, 25, 7, 0.3, 10) == [
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
    monkeypatch.setattr(machine, "last_level_cache_bytes", lambda: 0)
    assert sizing.residency(size) == ""


def test_rows_follow_from_the_cache_and_a_limit_on_memory_is_told(monkeypatch):
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


def test_a_dtype_that_a_kernel_lacks_leaves_a_row_with_its_reason(monkeypatch):
    lacking = dataclasses.replace(KERNELS["compact"], unsupported={"float64": "no doubles here"})
    monkeypatch.setattr(timing_cpu, "KERNELS", {"compact": lacking})
    found, samples = timing_cpu.run(**ARGUMENTS | only("compact"))
    assert set(found["reason"]) == {"no doubles here"}
    assert found["median_s"].isna().all() and samples.empty

"""From the roof to the kernel, step by step: fractions of the roof, and what each step adds to the last."""

from dataclasses import replace

import numpy as np
import pytest
from numba import get_num_threads

from layernorm_backward import stopwatch
from layernorm_backward.experiments import roof_steps
from layernorm_backward.kernels import numba_fused
from layernorm_backward.roofs import row_streams
from layernorm_backward.roofs.row_streams import STEPS
from layernorm_backward.timing import sizing
from layernorm_backward.timing.timed import most_threads
from planned_samples import SWEEP, samples_of, single_short_rows

ARGUMENTS = {
    "sweeps": [SWEEP],
    "repeats": 6,
    "at_least": 6,
    "budget_s": 0.0,
    "error_rows": 3,
    "error_limit_u": 100.0,
    "seed": 2,
}
SECONDS = {"triad": 1.0, "triad_again": 1.04, "by_row": 1.25, "read_twice": 2.0, "gamma": 2.0}
SECONDS |= {"triad_nt": 1.5, "partial_sums": 4.2, "pass": 5.0}
SECONDS |= {"by_row_not_asked": 1.3, "read_twice_not_asked": 2.1, "gamma_not_asked": 2.2}
SECONDS |= {"partial_sums_not_asked": 4.0}


@pytest.fixture(autouse=True)
def beforehand(monkeypatch):
    """What a run has compiled side by side; here it is compiled when it is called."""
    given = []
    monkeypatch.setattr(roof_steps, "side_by_side", lambda compiling, each: given.extend(each))
    return given


@pytest.mark.parametrize("direction", STEPS)
def test_the_loops_of_all_cells_are_compiled_before_once_each(direction, beforehand, monkeypatch):
    asked, compiled = set(), row_streams.compiled
    monkeypatch.setattr(row_streams, "compiled", lambda *way: asked.add(way) or compiled(*way))
    by_step(sweeps=[SWEEP | {"directions": [direction], "hidden": [48, 64, 1024], "threads": [1, "all"]}])
    needed = set(asked)
    asked.clear()
    for arguments in beforehand:
        row_streams.compile_steps(*arguments)
    assert asked == needed and len(beforehand) == len(needed)


def by_step(**changed):
    found, samples = roof_steps.run(**ARGUMENTS | changed)
    return found.set_index("step"), samples


def planned(calls, **_):
    """Samples of every call with its planned time."""
    return samples_of({name: 6 * [SECONDS[name]] for name in calls})


def test_fractions_are_of_the_roof_and_added_is_over_the_step_before(monkeypatch):
    single_short_rows(monkeypatch)
    monkeypatch.setattr(stopwatch, "compare", planned)
    found, samples = by_step()
    assert list(found.index) == ["by_row", "read_twice", "gamma", "partial_sums", "pass"]
    assert found["roof_fraction"].to_list() == [0.8, 0.5, 0.5, 0.25, 0.2]
    assert found["added"].to_list() == [1.25, 1.6, 1.0, 2.0, 1.25]
    assert found["median_s"].to_list() == [1.25, 2.0, 2.0, 4.0, 5.0]
    assert (found["ahead"] == 0).to_list() == [False, False, False, True, False]
    assert set(found["roof_operation"]) == {"triad"}
    assert set(found["roof_gb_per_s"] * 1e9) == {found["bytes"].iloc[0] / SECONDS["triad"]}
    assert found["noise"].to_numpy() == pytest.approx(0.04)
    assert found["differs"].to_list() == [
        False,
        True,
        False,
        True,
        False,
    ]  # 0.25 is less than 6.3 times the noise
    assert set(samples["name"]) == set(SECONDS) and set(samples["hidden"]) == {48}


def test_every_call_is_expected_to_take_what_the_pass_takes(monkeypatch):
    """So none of those that last long is tried before it is sampled."""
    single_short_rows(monkeypatch)
    known = []

    def noted(calls, known_s, **how):
        known.append((set(calls), known_s))
        return planned(calls, **how)

    monkeypatch.setattr(stopwatch, "compare", noted)
    by_step()
    assert known
    for calls, known_s in known:
        assert calls == set(known_s) and len(set(known_s.values())) == 1 and known_s["pass"] > 0


@pytest.mark.parametrize("direction", STEPS)
def test_every_step_of_a_direction_is_timed_beside_the_pass(direction):
    found, samples = by_step(sweeps=[SWEEP | {"directions": [direction], "threads": [1, "all"]}])
    assert list(found.index) == [*STEPS[direction], "pass"] * found["threads"].nunique()
    assert (found["reason"] == "").all() and (found["roof_fraction"] > 0).all()
    assert (found["rows"] % 4 == 0).all() and (found["repeats"] > 0).all()
    assert {*STEPS[direction], "pass"} < set(samples["name"])


def test_a_pass_with_wrong_results_is_not_timed(monkeypatch):
    def backward(dy, saved, out=None, plan=None):
        results = numba_fused.backward(dy, saved, out, plan)
        results[0][...] *= np.float32(1.001)
        return results

    monkeypatch.setattr(roof_steps, "KERNEL", replace(numba_fused.KERNEL, backward=backward))
    found, samples = by_step()
    assert found["reason"].str.startswith("wrong: ").all() and samples.empty


def test_more_threads_than_there_are_get_a_reason(monkeypatch):
    found, _ = by_step(sweeps=[SWEEP | {"threads": [1 + most_threads()]}])
    assert (found["reason"] == f"{most_threads()} cores are usable here, not {1 + most_threads()}").all()


def test_the_number_of_threads_is_put_back():
    before = get_num_threads()
    by_step()
    assert get_num_threads() == before


@pytest.mark.parametrize("rows", [4, 5, 7, 8])
def test_whole_groups_of_rows_stay_within_the_memory(monkeypatch, rows):
    row = 3 * 48 * 4
    monkeypatch.setattr(sizing, "memory_limit", lambda: rows * row)
    found, _ = by_step()
    assert set(found["rows"]) == {rows // 4 * 4}
    assert found["note"].str.endswith(f"memory holds {rows // 4 * 4 * row}").all()

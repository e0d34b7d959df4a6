"""The result at several places of its page: what is timed lies there, and is held against half a page."""

import numpy as np
import pytest

from layernorm_backward import roofs, stopwatch
from layernorm_backward.aligned import PAGE
from layernorm_backward.experiments import page_offset
from layernorm_backward.kernels import numba_fused, numba_plan
from layernorm_backward.studies import config
from layernorm_backward.timing import cell_roof, sizing
from layernorm_backward.timing.timed import most_threads
from planned_samples import SWEEP, samples_of
from workspace import ROOT

ARGUMENTS = {
    "places": [0, 64],
    "sweeps": [SWEEP],
    "repeats": 6,
    "at_least": 6,
    "budget_s": 0.0,
    "error_rows": 3,
    "error_limit_u": 100.0,
    "seed": 2,
}
SECONDS = {0: 3.0, 64: 4.0, 2048: 2.0}


def by_place(**changed):
    found, samples = page_offset.run(**ARGUMENTS | changed)
    return found.set_index("place"), samples


def planned(calls, **_):
    """A pass takes the seconds of its place, and 5 % more a second time; a stream the square root of them."""
    times = {}
    for name in calls:
        kind, place, *again = name.split("_")
        times[name] = 6 * [SECONDS[int(place)] ** (1 if kind == "pass" else 0.5) * (1.05 if again else 1)]
    return samples_of(times)


def test_ratios_are_those_to_half_a_page_which_is_measured_whether_it_is_wanted_or_not(monkeypatch):
    monkeypatch.setattr(stopwatch, "compare", planned)
    found, samples = by_place()
    assert list(found.index) == [0, 64, PAGE // 2]
    assert found["ratio"].to_list() == [1.5, 2.0, 1.0]
    assert found["roof_ratio"].to_numpy() == pytest.approx([1.5**0.5, 2**0.5, 1])
    assert found["median_s"].to_list() == [3.0, 4.0, 2.0]
    assert found["noise"].to_numpy() == pytest.approx(0.05)
    assert set(samples["name"]) == {f"{kind}_{place}" for kind in ("pass", "roof") for place in SECONDS} | {
        "pass_2048_again"
    }


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_pass_and_stream_write_to_the_place_of_their_name(direction, monkeypatch):
    written = []

    def noted(function):
        def call(*arguments, **named):
            out = named["out"]
            result = out if isinstance(out, np.ndarray) else out[0]
            written.append(result.ctypes.data % PAGE)
            assert arguments[0].ctypes.data % PAGE == page_offset.INPUTS
            return function(*arguments, **named)

        return call

    def stream(operation, a, b, c=None):
        assert operation.startswith({"forward": "copy", "backward": "triad"}[direction])
        return lambda: written.append(a.ctypes.data % PAGE)

    def compare(calls, **how):
        for name, call in calls.items():
            written.clear()
            call()
            assert written == [int(name.split("_")[1])]
        return planned(calls)

    monkeypatch.setattr(numba_fused, direction, noted(getattr(numba_fused, direction)))
    monkeypatch.setattr(roofs, "stream", stream)
    monkeypatch.setattr(stopwatch, "compare", compare)
    found, _ = by_place(sweeps=[SWEEP | {"directions": [direction]}])
    assert (found["reason"] == "").all() and len(found) == 3


@pytest.mark.parametrize("stream", [False, True])
def test_the_stream_stores_as_the_plan_does(stream, monkeypatch):
    monkeypatch.setattr(stopwatch, "compare", planned)
    choice = numba_plan.choose(1, 48, np.dtype("float32"))._replace(stream=stream)
    monkeypatch.setattr(numba_plan, "choose", lambda *_: choice)
    found, _ = by_place()
    past = stream and not roofs.missing("triad_nt")
    assert set(found["roof_operation"]) == {"triad_nt" if past else "triad"}
    assert set(found["stream"]) == {stream}


@pytest.mark.parametrize("residency", ["memory", "cache"])
def test_calls_from_memory_are_not_tried_before_they_are_sampled(residency, monkeypatch):
    """They take about as long as the first pass; their streams were loaded before."""
    steps = []

    def compare(calls, *, known_s, **_):
        steps.append("compare")
        assert set(known_s) == (set(calls) if residency == "memory" else set())
        assert all(seconds > 0 for seconds in known_s.values())
        return planned(calls)

    monkeypatch.setattr(cell_roof, "load", lambda direction, arrays: steps.append(direction))
    monkeypatch.setattr(sizing, "residency", lambda size: residency)
    monkeypatch.setattr(stopwatch, "compare", compare)
    by_place()
    assert steps == ["backward", "compare"]


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_all_cells_are_measured_in_either_direction(direction):
    sweep = SWEEP | {"directions": [direction], "threads": [1, "all"], "dtypes": ["float32", "bfloat16"]}
    found, samples = by_place(sweeps=[sweep])
    assert len(found) == 3 * 2 * found["threads"].nunique()
    assert (found["reason"] == "").all() and (found[["ratio", "roof_ratio"]] > 0).all(axis=None)
    assert (found["error_u_max"] < 100).all() and (found["error_u_max"] > 0).all()
    assert set(samples["threads"]) == {1, most_threads()}


def test_wrong_results_and_threads_that_are_not_there_are_not_timed():
    found, samples = by_place(error_limit_u=1e-9)
    assert found["reason"].str.startswith("wrong: ").all() and samples.empty
    found, samples = by_place(sweeps=[SWEEP | {"threads": [1 << 20]}])
    assert found["reason"].str.contains("cores are usable here").all() and samples.empty


@pytest.mark.parametrize("place", [-64, 32, PAGE])
def test_a_place_within_a_line_or_outside_of_a_page_is_refused(place, tmp_path):
    path = tmp_path / "page_offset.yaml"
    usual = (ROOT / "config/smoke/page_offset.yaml").read_text(encoding="utf-8")
    path.write_text(usual.replace("[0, 64]", f"[{place}]"), encoding="utf-8")
    with pytest.raises(ValueError, match="places"):
        config.load(path, page_offset.run)

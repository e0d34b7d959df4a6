"""Ordinary against non-temporal stores: which wins, alone and with a reader, and what the plan chooses."""

import numpy as np
import pytest
from numba import get_num_threads

from layernorm_backward import roofs, stopwatch
from layernorm_backward.aligned import aligned_empty
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.experiments import _variant_checks, stores
from layernorm_backward.kernels import numba_fused, numba_plan
from layernorm_backward.timing.timed import most_threads
from planned_samples import SWEEP, samples_of

ARGUMENTS = {
    "sweeps": [SWEEP],
    "repeats": 6,
    "at_least": 6,
    "budget_s": 0.0,
    "error_rows": 3,
    "error_limit_u": 100.0,
    "seed": 2,
}
SECONDS = {"ordinary": 3.0, "non_temporal": 2.0, "ordinary_read": 4.0, "non_temporal_read": 5.0}


def by_then(**changed):
    found, samples = stores.run(**ARGUMENTS | changed)
    return found.set_index("then"), samples


def planned(calls, **_):
    """Samples of every call with its planned time; a second time it takes 5 % longer."""
    slower = {name: 1.05 if "again" in name else 1 for name in calls}
    return samples_of({name: 6 * [SECONDS[name.removesuffix("_again")] * slower[name]] for name in calls})


@pytest.mark.parametrize("stream", [False, True])
def test_a_ratio_is_ordinary_over_non_temporal_and_the_time_that_of_the_choice(stream, monkeypatch):
    monkeypatch.setattr(stopwatch, "compare", planned)
    choice = numba_plan.choose(1, 48, np.dtype("float32"))._replace(stream=stream)
    monkeypatch.setattr(numba_plan, "choose", lambda *_: choice)
    found, samples = by_then()
    assert list(found.index) == ["nothing", "read"]
    assert found["ratio"].to_list() == [1.5, 0.8]
    assert found["stream"].to_list() == [stream, stream]
    assert found["median_s"].to_list() == ([2.0, 5.0] if stream else [3.0, 4.0])
    assert found["noise"].to_numpy() == pytest.approx(0.05)
    assert found["differs"].to_list() == [True, False]  # beyond 6.3 times the noise
    again = "non_temporal" if stream else "ordinary"
    assert set(samples["name"]) == {*SECONDS, f"{again}_again", f"{again}_read_again"}


def test_every_call_stores_as_its_name_says_and_is_followed_by_a_reading(monkeypatch):
    done = []

    def backward(dy, saved, out=None, plan=None):
        done.append("non_temporal" if plan.stream else "ordinary")
        return numba_fused_backward(dy, saved, out, plan)

    def compare(calls, **how):
        for name, call in calls.items():
            done.clear()
            call()
            kind = name.removesuffix("_again").removesuffix("_read")
            assert done == [kind, "read"] if "_read" in name else done == [kind]
        return planned(calls)

    numba_fused_backward = numba_fused.backward
    monkeypatch.setattr(numba_fused, "backward", backward)
    monkeypatch.setattr(roofs, "read", lambda array: lambda: done.append("read"))
    monkeypatch.setattr(stopwatch, "compare", compare)
    assert (by_then()[0]["reason"] == "").all()


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_all_cells_are_measured_in_either_direction(direction):
    sweep = SWEEP | {"directions": [direction], "threads": [1, "all"], "dtypes": ["float32", "bfloat16"]}
    found, samples = by_then(sweeps=[sweep])
    assert len(found) == 2 * 2 * found["threads"].nunique()
    assert (found["reason"] == "").all() and (found["ratio"] > 0).all()
    assert (found["error_u_max"] < 100).all()
    assert set(samples["threads"]) == {1, most_threads()}


def test_wrong_results_and_threads_that_are_not_there_are_not_timed(monkeypatch):
    found, samples = by_then(error_limit_u=1e-9)
    assert found["reason"].str.startswith("wrong: ").all() and samples.empty
    found, samples = by_then(sweeps=[SWEEP | {"threads": [1 << 20]}])
    assert found["reason"].str.contains("cores are usable here").all() and samples.empty


@pytest.mark.parametrize("errors_u", [(1.0, 200.0), (200.0, 1.0)])
def test_one_wrong_pass_of_the_two_is_enough_that_neither_is_timed(errors_u, monkeypatch):
    errors = iter(errors_u)
    monkeypatch.setattr(_variant_checks, "first_run", lambda *_: (0.1, next(errors)))
    found, samples = by_then()
    assert (found["reason"] == "wrong: 200 u off, over 100 u").all() and samples.empty


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("lines", [1, 64, 1000])
def test_a_reading_reads_all_whole_lines_once(dtype, lines, monkeypatch):
    array = aligned_empty(64 * lines // dtype_of(dtype).itemsize, dtype_of(dtype))
    array[...] = np.random.default_rng(1).integers(-3, 4, array.size)
    totals = []
    compiled = roofs.reads()

    def reads():
        def call(flat, parts, *rest):
            parts.fill(0)  # of the units of a piece, the first gets its sum
            compiled(flat, parts, *rest)
            totals.append(parts)

        return call

    monkeypatch.setattr(roofs, "reads", reads)
    for threads in (1, get_num_threads()):
        with stopwatch.threads(threads):
            roofs.read(array)()
    for parts in totals:
        assert parts.sum() == array.astype(np.float64).sum()

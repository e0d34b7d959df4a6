"""The traffic models agree with the counts, and the counters count."""

import sys
from pathlib import Path

import numpy as np
import pytest

from layernorm_backward import kernels
from layernorm_backward.experiments import traffic_steps
from layernorm_backward.kernels import numba_fused, numba_plan, numpy_blocked, row_blocks
from layernorm_backward.traffic import MODELS, Step, counts, lanes, totals
from layernorm_backward.traffic.arrays import Counted, Tally, addresses_of, counted
from layernorm_backward.traffic.counts import count
from layernorm_backward.traffic.lanes import counting
from layernorm_backward.traffic.schemes import SCHEMES

CASES = [(name, direction) for name in MODELS for direction in ("forward", "backward")]
IN_MEMORY = ("reads", "memory_reads", "writes", "memory_writes", "operations")


def agree(name, direction, found):
    modelled = totals(MODELS[name][direction])
    return {field for field in IN_MEMORY if getattr(found, field) != getattr(modelled, field)}


@pytest.mark.parametrize("name, direction", CASES)
def test_the_model_is_what_a_run_counts(name, direction):
    found = count(name, direction, "float64")
    assert agree(name, direction, found) == set()
    if name != "numba_fused":  # its sums over D are loops like others, and cannot be told from them
        assert found.row_sums == totals(MODELS[name][direction]).row_sums


@pytest.mark.parametrize("name, direction", [case for case in CASES if case[0] != "reference"])
def test_the_count_in_float32_is_that_in_float64(name, direction):
    assert count(name, direction, "float32")[:5] == count(name, direction, "float64")[:5]


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_the_model_of_numba_fused_holds_for_streamed_results_and_16_bits(dtype, direction):
    assert agree("numba_fused", direction, count("numba_fused", direction, dtype, "non-temporal")) == set()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_the_counting_run_of_numba_fused_has_the_bits_of_the_compiled_one(dtype):
    plan = numba_plan.Plan(group=2, ahead=1, stream=False, chunks=2, block=4, stretch=6)
    x, dy, out, gamma, beta, *_ = counts._arrays(dtype, 37, 45)
    with counting(Tally(), [x, dy, out]) as kernel:
        assert kernel is not numba_fused
        found = results(kernel, x, dy, gamma, beta, plan)
    for a, b in zip(found, results(numba_fused, x, dy, gamma, beta, plan), strict=True):
        assert a.tobytes() == b.tobytes()


def results(kernel, x, dy, gamma, beta, plan):
    y, saved = kernel.forward(x, gamma, beta, 1e-5, plan=plan)
    return (y, saved.mean, saved.rstd, *kernel.backward(dy, saved, plan=plan))


def test_a_cache_that_is_too_small_shows_in_the_count(monkeypatch):
    monkeypatch.setattr(counts, "CACHED_ROWS", 1)
    assert "memory_reads" in agree("numba_fused", "backward", count("numba_fused", "backward", "float64"))
    monkeypatch.setattr(row_blocks, "SHARE", 1)
    found = agree("numpy_blocked", "backward", count("numpy_blocked", "backward", "float64"))
    assert {"memory_reads", "memory_writes"} <= found


def test_numpy_passes_are_counted_once_an_operand():
    tally = Tally()
    a = counted(np.ones((3, 4)), tally)
    b = a * a + np.ones(4)
    assert type(b) is Counted
    assert (tally.reads, tally.writes, tally.operations) == (12 + 12 + 4, 12 + 12, 24)


def test_a_compiled_kernel_is_not_counted_by_its_numpy_operations():
    with pytest.raises(ValueError, match="numba_fused: no NumPy operation was seen"):
        counts._numpy("numba_fused", Tally(), "backward", "float32", 128, 64)


def test_reductions_count_their_input_and_sums_over_the_last_axis():
    tally = Tally()
    a = counted(np.ones((3, 4)), tally)
    a.sum(axis=0)
    a.sum(axis=-1)
    a.sum(axis=1, keepdims=True)
    a.sum(axis=(0, 1))
    assert (tally.operations, tally.writes, tally.row_sums) == (48, 4 + 3 + 3 + 1, 2)


def test_casts_and_assignments_are_passes_and_views_are_not():
    tally = Tally()
    a = counted(np.ones((3, 4)), tally)
    a.astype(np.float64, copy=False)
    assert tally.reads == 0
    a.astype(np.float32)
    a[...] = counted(np.zeros((3, 4)), tally)
    assert (tally.reads, tally.writes, tally.operations) == (24, 24, 0)
    assert not np.asarray(a).any()


def test_counted_results_are_those_of_plain_arrays():
    x = np.random.default_rng(0).standard_normal((3, 4))
    found = counted(x, Tally())
    np.testing.assert_array_equal(np.asarray(found.mean(axis=-1)), x.mean(axis=-1))
    np.testing.assert_array_equal(np.asarray(np.sqrt(found * found) / 3), np.sqrt(x * x) / 3)


def test_a_cache_answers_reads_and_holds_writes_until_it_forgets_them():
    tally, a, b = Tally(cache=4), np.zeros(4), np.zeros(4)
    tally.read(addresses_of(a))
    tally.read(addresses_of(a[::-1]))
    assert (tally.reads, tally.memory_reads) == (8, 4)
    tally.written(addresses_of(b[:2]))
    assert tally.memory_writes == 0
    tally.read(addresses_of(a))
    assert (tally.memory_reads, tally.memory_writes) == (4 + 2, 2)
    tally.written(addresses_of(b), streamed=True)
    assert tally.memory_writes == 2 + 4
    tally.written(addresses_of(b[3:]))
    tally.flushed(b)
    tally.flushed(b)
    assert (tally.writes, tally.memory_writes) == (2 + 4 + 1, 2 + 4 + 1)
    tally.restart()
    assert tally == Tally(cache=4)


def test_a_result_that_is_read_in_the_cache_still_reaches_memory_and_a_streamed_one_does_once():
    tally, a = Tally(cache=8), np.zeros(4)
    tally.written(addresses_of(a))
    tally.read(addresses_of(a))
    tally.flushed(a)
    assert (tally.memory_reads, tally.memory_writes) == (0, 4)
    tally.restart()
    tally.written(addresses_of(a))
    tally.written(addresses_of(a), streamed=True)
    tally.flushed(a)
    assert tally.memory_writes == 4


def test_what_was_asked_for_ahead_is_read_from_memory_once():
    tally, a = Tally(cache=8), np.zeros(8)
    tally.fetched(addresses_of(a))
    tally.read(addresses_of(a))
    assert (tally.reads, tally.memory_reads) == (8, 8)


def test_what_is_asked_for_past_the_end_is_not_read():
    tally, x = Tally(cache=64), np.zeros(64)
    with counting(tally, [x]):
        lanes.prefetch(x, 60, lanes.zeros(x, 1))
    assert tally.memory_reads == 4


def test_a_count_leaves_the_kernels_as_they_were():
    before = numpy_blocked.np, numpy_blocked.blocks
    for name in ("numpy_blocked", "numba_fused"):
        count(name, "forward", "float64")
    assert (numpy_blocked.np, numpy_blocked.blocks) == before
    for module in (*lanes._REPLACED, *lanes._COPIED):
        own = module.__name__.rpartition(".")[2]
        assert getattr(kernels, own) is sys.modules[module.__name__] is module


def test_addresses_are_those_of_the_elements_of_a_view():
    a = np.zeros((3, 4), np.float32)
    start = a.ctypes.data
    assert addresses_of(a[1:, ::2]) == [start + 4 * n for n in (4, 6, 8, 10)]
    assert addresses_of(a[:0]) == []


def test_passes_over_blocks_go_through_the_cache():
    tally = Tally(cache=100)
    a = counted(np.ones((3, 4)), tally)
    a *= 2
    a.sum(axis=1)
    assert (tally.reads, tally.memory_reads, tally.writes, tally.memory_writes) == (24, 12, 15, 0)


def test_a_step_that_a_model_lacks_is_found(monkeypatch):
    steps = MODELS["compact"]["backward"][:-1]
    assert totals(steps) != totals(MODELS["compact"]["backward"])
    assert totals(steps).operations != count("compact", "backward", "float64").operations


def test_an_ordinary_store_reads_its_line_first():
    found = totals([Step("a", reads=3, writes=2, operations=2, cached=1, kept=1)])
    assert found.accesses == 5
    assert found.memory_accesses("ordinary") == 2 + 2 * 1
    assert found.memory_accesses("non-temporal") == 2 + 1


def test_the_steps_of_the_table_add_up_to_the_totals():
    found = traffic_steps.run(kernels=["compact", "numpy_blocked", "numba_fused"], schemes=list(SCHEMES))
    sums = found.groupby(["kernel", "direction"])[["reads", "writes", "operations", "row_sums"]].sum()
    for (name, direction), row in sums.iterrows():
        modelled = totals(MODELS[name][direction])
        assert tuple(row) == (modelled.reads, modelled.writes, modelled.operations, modelled.row_sums)
        steps = found[(found["kernel"] == name) & (found["direction"] == direction)]["step"]
        assert steps.tolist() == list(range(1, len(MODELS[name][direction]) + 1))
    assert set(SCHEMES) < set(found["kernel"])


def test_all_modules_with_compiled_functions_of_the_pass_are_loaded_anew():
    """One that is not would stay compiled, and call what is plain Python while bytes are counted."""
    folder = Path(numba_fused.__file__).parent
    compiled = {
        path.stem for path in folder.glob("numba_*.py") if "@njit" in path.read_text(encoding="utf-8")
    }
    copied = {module.__name__.rpartition(".")[2] for module in lanes._COPIED}
    assert copied == compiled - {"numba_residency"} | {"numba_calls", "numba_fused", "numba_passes"}

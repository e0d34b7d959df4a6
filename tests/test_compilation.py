"""What the set-up compiles is what calls need, and no process loses what another has compiled."""

import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest

from layernorm_backward import compilation
from layernorm_backward.aligned import aligned_empty
from layernorm_backward.directions import DIRECTIONS
from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of
from layernorm_backward.kernels import numba_calls, numba_fused, numba_passes, numba_plan, processor
from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.kernels.numba_calls import Code
from layernorm_backward.kernels.processor import Traits

EPS = 1e-5


@pytest.fixture
def needed(monkeypatch):
    """The codes that calls of numba_fused asked for."""
    numba_calls.call.cache_clear()
    found, compiled = set(), Code.compiled

    def asked(code):
        found.add(code)
        return compiled(code)

    monkeypatch.setattr(Code, "compiled", asked)
    return found


@pytest.mark.parametrize("stays", [True, False], ids=["in the cache", "beyond it"])
@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_calls_need_nothing_else(dtype, stays, needed, monkeypatch):
    monkeypatch.setattr(numba_plan, "_chosen", numba_plan._chosen.__wrapped__)
    monkeypatch.setattr(numba_plan, "cache_resident", lambda size, threads, direction: stays)
    monkeypatch.setattr(numba_fused, "cached_call", numba_calls.cached_call.__wrapped__)
    for hidden in (1, 5, 64, 129, 512, 1024, 2048, 4096, 16384, 65536):
        x, vector = np.ones((3, hidden), dtype_of(dtype)), np.ones(hidden, dtype_of(dtype))
        result = aligned_empty(x.size, x.dtype).reshape(x.shape)
        _, saved = numba_fused.forward(x, vector, vector, EPS, out=result)
        numba_fused.backward(x, saved, out=(result, vector.copy(), vector.copy()))
    monkeypatch.undo()
    for direction in DIRECTIONS:
        codes = {code for code in needed if code.direction == direction}
        assert codes <= set(compilation.chosen(direction)) and {code.dtype for code in codes} == {dtype}
        assert {code.ragged for code in codes} == {False, True}


@pytest.mark.parametrize("kept", [False, True])
def test_a_plan_that_keeps_rows_runs_code_that_does(kept, needed):
    x, vector = np.ones((3, 64), np.float16), np.ones(64, np.float16)
    _, saved = numba_fused.forward(x, vector, vector, EPS)
    plan = numba_plan.choose(*x.shape, x.dtype)._replace(group=1, widened=kept)
    results = aligned_empty(x.size, x.dtype).reshape(x.shape), vector.copy(), vector.copy()
    numba_fused.backward(x, saved, out=results, plan=plan)
    assert {code for code in needed if code.direction == "backward"} == {
        Code("backward", "float16", 1, False, kept)
    }


@pytest.mark.parametrize(("few", "groups"), [(True, {1, 2}), (False, {1, 2, 4})])
def test_a_processor_of_few_registers_needs_less(few, groups, monkeypatch):
    monkeypatch.setattr(processor, "traits", lambda: Traits(few_registers=few))
    codes = [*compilation.chosen("forward"), *compilation.chosen("backward")]
    assert {code.group for code in codes} == groups
    assert {code.group for code in codes if code.ragged} == ({1} if few else groups)
    assert {code.group for code in compilation.chosen("backward") if code.ragged} == {1}
    assert not any(code.lag for code in codes)
    for direction in DIRECTIONS:
        assert {code.dtype for code in compilation.chosen(direction)} == set(DTYPE_NAMES)


@pytest.mark.parametrize("far", [False, True])
def test_code_variants_are_those_of_any_row(far, monkeypatch):
    monkeypatch.setattr(processor, "traits", lambda: Traits(prefetch_to_l2=far))
    for direction in DIRECTIONS:
        for name in DTYPE_NAMES:
            dtype = dtype_of(name)
            sizes = (*range(1, 300), *range(300, 70000, 999))
            plans = [numba_plan.choose(10**6, hidden, dtype, direction) for hidden in sizes]
            some = {
                (plan.group, hidden * dtype.itemsize % LINE > 0, plan.widened, plan.lag)
                for hidden, plan in zip(sizes, plans, strict=True)
            }
            assert some <= set(numba_plan.code_variants(dtype, direction))


class Pool:
    """A pool that does at once what it is given."""

    def __init__(self, workers, context):
        assert 1 <= workers <= compilation.MOST_PROCESSES and context.get_start_method() == "spawn"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def submit(self, function, *arguments):
        future = Future()
        try:
            future.set_result(function(*arguments))
        except ValueError as error:
            future.set_exception(error)
        return future


@pytest.fixture
def compiled(monkeypatch):
    """The codes that would have been compiled, in their order."""
    found = []
    monkeypatch.setattr(compilation, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(Code, "compiled", lambda code: found.append(code))
    return found


def test_the_set_up_compiles_all_that_plans_choose_and_directions_take_turns(compiled):
    compilation.compile_all()
    assert sorted(compiled) == sorted(code for way in DIRECTIONS for code in compilation.chosen(way))
    assert [code.direction for code in compiled[:6]] == ["forward", "backward"] * 3


def test_a_code_that_is_asked_for_twice_is_compiled_once(compiled):
    one, other = Code("forward", "float32", 1, False), Code("forward", "float32", 2, False)
    compilation.compile_codes(iter([one, other, one]))
    assert compiled == [one, other]


def test_what_processes_compile_is_told_as_it_is_done(capfd):
    compilation.side_by_side(print, [("one",), ("two",)])
    said = capfd.readouterr()
    assert sorted(said.out.split()) == ["one", "two"] and "compile: 100%" in said.err and "2/2" in said.err


def test_each_code_has_a_name_of_its_own_which_numba_names_its_index_by(monkeypatch):
    """Numba reads an index, adds to it and writes it: two processes would lose what one has added."""
    index = Path(Code("forward", "float32", 1, False).compiled()._cache._cache_file._index_path).name
    assert ".forward_float32_1_" in index
    monkeypatch.setattr(numba_passes, "_compile", lambda signature, function: function)
    for direction in DIRECTIONS:
        made = getattr(numba_passes, f"{direction}_pass").__wrapped__
        monkeypatch.setattr(numba_calls, f"{direction}_pass", made)
    codes = {code for direction in DIRECTIONS for code in compilation.chosen(direction)}
    codes |= {code._replace(lag=True) for code in codes}
    codes |= {code._replace(recentre=False, widened=True) for code in codes if code.direction == "backward"}
    names = {code.compiled().__qualname__ for code in codes}
    assert len(names) == len(codes) and index.startswith("numba_passes.")


def test_what_converts_16_bit_vectors_is_compiled_too(compiled, monkeypatch):
    pairs = set()
    monkeypatch.setattr(compilation, "between", lambda *names: pairs.add(names))
    compilation.compile_all()
    assert pairs >= {("float16", "float16"), ("bfloat16", "bfloat16"), ("bfloat16", "float32")}


def test_an_error_of_a_process_is_raised(monkeypatch):
    def compiled(code):
        if (code.direction, code.dtype) == ("backward", "bfloat16"):
            raise ValueError("no bfloat16 today")

    monkeypatch.setattr(compilation, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(Code, "compiled", compiled)
    with pytest.raises(ValueError, match="no bfloat16 today"):
        compilation.compile_all()


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_code_is_that_of_its_fields(direction, monkeypatch):
    calls = []
    monkeypatch.setattr(numba_calls, "forward_pass", lambda *code: calls.append(code))
    monkeypatch.setattr(numba_calls, "backward_pass", lambda *code: calls.append(code))
    Code(direction, "float32", 2, False, lag=True, recentre=False).compiled()
    forward, backward = ("float32", 2, False, False, True), ("float32", 2, False, False, True, False)
    assert calls == [forward if direction == "forward" else backward]


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_later_process_finds_compiled_what_an_earlier_one_has_compiled(direction):
    """Whatever a function closes over is part of the key: what differs by process would compile in each."""
    code = (
        f"from layernorm_backward.kernels.numba_passes import {direction}_pass as made\n"
        "stats = made('float32', 1, False).stats\n"
        "print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))"
    )
    command = [sys.executable, "-c", code]
    _, later = (subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(2))
    assert later.stdout.split() == ["1", "0"]

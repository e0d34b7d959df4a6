"""What the set-up compiles is what calls need, and all code of a pass comes from one process."""

import subprocess
import sys
from concurrent.futures import Future

import numpy as np
import pytest

from layernorm_backward import compilation
from layernorm_backward.aligned import aligned_empty
from layernorm_backward.directions import DIRECTIONS
from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of
from layernorm_backward.kernels import numba_calls, numba_fused, numba_plan, processor
from layernorm_backward.kernels.lanes import LINE

EPS = 1e-5


@pytest.fixture
def needed(monkeypatch):
    """The codes that calls of numba_fused asked for, by pass."""
    numba_calls.call.cache_clear()
    found = {direction: set() for direction in DIRECTIONS}

    def asking(direction):
        compiled = getattr(numba_calls, f"{direction}_pass")

        def asked(*code, **further):
            told = {name: given for name, given in further.items() if name != "recentre"}
            found[direction].add(compilation.Code(*code, **told))
            return compiled(*code, **further)

        return asked

    for direction in found:
        monkeypatch.setattr(numba_calls, f"{direction}_pass", asking(direction))
    return found


@pytest.mark.parametrize("stays", [True, False], ids=["in the cache", "beyond it"])
@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_calls_need_nothing_else(dtype, stays, needed, monkeypatch):
    monkeypatch.setattr(numba_plan, "_chosen", numba_plan._chosen.__wrapped__)
    monkeypatch.setattr(numba_plan, "stays", lambda size, threads: stays)
    monkeypatch.setattr(numba_plan, "few_bytes", lambda: 0)
    for hidden in (1, 5, 64, 129, 512, 1024, 2048, 4096, 16384, 65536):
        x, vector = np.ones((3, hidden), dtype_of(dtype)), np.ones(hidden, dtype_of(dtype))
        result = aligned_empty(x.size, x.dtype).reshape(x.shape)
        _, saved = numba_fused.forward(x, vector, vector, EPS, out=result)
        numba_fused.backward(x, saved, out=(result, vector.copy(), vector.copy()))
    monkeypatch.undo()
    for direction, codes in needed.items():
        chosen = {code for code in compilation.chosen(direction) if code.dtype == dtype}
        assert codes <= chosen and {code.ragged for code in codes} == {False, True}


@pytest.mark.parametrize("kept", [False, True])
def test_a_plan_that_keeps_rows_runs_code_that_does(kept, needed):
    x, vector = np.ones((3, 64), np.float16), np.ones(64, np.float16)
    _, saved = numba_fused.forward(x, vector, vector, EPS)
    plan = numba_plan.choose(*x.shape, x.dtype)._replace(group=1, widened=kept)
    results = aligned_empty(x.size, x.dtype).reshape(x.shape), vector.copy(), vector.copy()
    numba_fused.backward(x, saved, out=results, plan=plan)
    assert needed["backward"] == {compilation.Code("float16", 1, False, kept)}


@pytest.mark.parametrize(("few", "groups"), [(True, {1, 2}), (False, {1, 2, 4})])
def test_a_processor_of_few_registers_needs_less(few, groups, monkeypatch):
    monkeypatch.setattr(processor, "few_registers", lambda: few)
    monkeypatch.setattr(processor, "asks_far", lambda: False)
    codes = [*compilation.chosen("forward"), *compilation.chosen("backward")]
    assert {code.group for code in codes} == groups
    assert {code.group for code in codes if code.ragged} == ({1} if few else groups)
    assert {code.group for code in compilation.chosen("backward") if code.ragged} == {1}
    assert not any(code.lag for code in codes)
    for direction in DIRECTIONS:
        assert {code.dtype for code in compilation.chosen(direction)} == set(DTYPE_NAMES)


@pytest.mark.parametrize("far", [False, True])
def test_ways_are_those_of_any_row(far, monkeypatch):
    monkeypatch.setattr(processor, "asks_far", lambda: far)
    for direction in DIRECTIONS:
        for name in DTYPE_NAMES:
            dtype = dtype_of(name)
            sizes = (*range(1, 300), *range(300, 70000, 999))
            plans = [numba_plan.choose(10**6, hidden, dtype, direction) for hidden in sizes]
            some = {
                (plan.group, hidden * dtype.itemsize % LINE > 0, plan.widened, plan.lag)
                for hidden, plan in zip(sizes, plans, strict=True)
            }
            assert some <= set(numba_plan.ways(dtype, direction))


class Pool:
    """A pool that does at once what it is given, and remembers it."""

    def __init__(self, workers, context):
        assert workers == 1 and context.get_start_method() == "spawn"
        self.given = []
        pools.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def submit(self, function, *arguments):
        self.given.append(arguments)
        future = Future()
        try:
            future.set_result(function(*arguments))
        except ValueError as error:
            future.set_exception(error)
        return future


pools: list[Pool] = []


def test_a_pass_is_compiled_in_one_process(monkeypatch):
    """Numba keeps an index for each pass, whatever the dtype."""
    pools.clear()
    monkeypatch.setattr(compilation, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(compilation, "_compiled", lambda direction, code: None)
    compilation.compile_all()
    given = [[arguments for arguments in pool.given if arguments] for pool in pools]
    assert given == [
        [(direction, code) for code in compilation.chosen(direction)] for direction in DIRECTIONS
    ]


def test_what_converts_16_bit_vectors_is_compiled_too(monkeypatch):
    pools.clear()
    pairs = set()
    monkeypatch.setattr(compilation, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(compilation, "_compiled", lambda direction, code: None)
    monkeypatch.setattr(compilation, "between", lambda *names: pairs.add(names))
    compilation.compile_all()
    assert pairs >= {("float16", "float16"), ("bfloat16", "bfloat16"), ("bfloat16", "float32")}


def test_an_error_of_a_process_is_raised(monkeypatch):
    def compiled(direction, code):
        if (direction, code.dtype) == ("backward", "bfloat16"):
            raise ValueError("no bfloat16 today")

    monkeypatch.setattr(compilation, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(compilation, "_compiled", compiled)
    with pytest.raises(ValueError, match="no bfloat16 today"):
        compilation.compile_all()


def test_float32_is_compiled_without_recentring_too(monkeypatch):
    calls = []
    monkeypatch.setattr(compilation, "forward_pass", lambda *code, **how: calls.append((*code, how)))
    monkeypatch.setattr(compilation, "backward_pass", lambda *code, **how: calls.append((*code, how)))
    for dtype in ("float32", "float64"):
        for direction in DIRECTIONS:
            compilation._compiled(direction, compilation.Code(dtype, 1, True))
    assert calls == [
        ("float32", 1, True, {"lag": False}),
        ("float32", 1, True, False, False, {}),
        ("float32", 1, True, False, False, {"recentre": False}),
        ("float64", 1, True, {"lag": False}),
        ("float64", 1, True, False, False, {}),
    ]


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

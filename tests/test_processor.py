"""What numba_fused takes from the processor's design: where lines are asked for, rows side by side."""

import platform
from types import SimpleNamespace

import numpy as np
import pytest
from numba import intp, njit, typeof

from layernorm_backward.kernels import numba_pace, numba_plan, numba_walk, processor
from layernorm_backward.kernels.lanes import zeros


@pytest.fixture
def asked(monkeypatch):
    """Puts another processor in place of this one; returns how often it was asked what it is."""

    def stand_in(design, features):
        asked = []

        def magic_tuple():
            asked.append(design)
            return "x86_64-unknown-linux-gnu", design, features

        codegen = SimpleNamespace(magic_tuple=magic_tuple)
        context = SimpleNamespace(codegen=lambda: codegen)
        monkeypatch.setattr(processor, "cpu_target", SimpleNamespace(target_context=context))
        processor._host.cache_clear()
        return asked

    yield stand_in
    processor._host.cache_clear()


@pytest.mark.parametrize(
    ("design", "features", "far", "few", "single"),
    [
        ("znver3", "+avx,+avx2", True, True, True),
        ("znver4", "+avx,+avx2,-avx512f", True, True, False),
        ("znver4", "+avx2,+avx512f,+avx512bw", True, False, False),
        ("sapphirerapids", "+avx2,+avx512f", False, False, False),
        ("haswell", "+avx2,-avx512f", False, True, False),
        ("generic", "", False, True, False),
    ],
)
def test_a_design_decides_where_lines_are_asked_for_and_its_vectors_how_many_registers(
    design, features, far, few, single, asked
):
    asked(design, features)
    found = processor.asks_far(), processor.few_registers(), processor.single_rows()
    assert found == (far, few, single)


@pytest.mark.parametrize(("design", "groups"), [("znver3", {1}), ("znver4", {1, 2})])
def test_rows_go_by_twos_on_a_zen_without_avx_512_but_for_one_that_is_slower_so(design, groups, asked):
    asked(design, "+avx2")
    numba_plan._chosen.cache_clear()
    found = {
        numba_plan.choose(1 << 20, hidden, np.dtype(np.float32), direction).group
        for direction in ("forward", "backward")
        for hidden in (64, 1024, 4096, 65536)
    }
    numba_plan._chosen.cache_clear()
    assert found == groups


def test_calls_do_not_ask_again(asked):
    questions = asked("znver4", "+avx2")
    for _ in range(3):
        numba_plan.choose(1, 64, np.dtype(np.float32))
    assert len(questions) == 2  # its design, and its features


@pytest.mark.parametrize(
    ("direction", "dtype", "hidden", "rows"),
    [
        ("backward", np.float32, 64, 1),
        ("backward", np.float32, 16384, 1),
        ("forward", np.float32, 2048, 1),
        ("forward", np.float32, 2049, 1),
        ("forward", np.float64, 1024, 1),
        ("forward", np.float64, 16384, 2),
        ("forward", np.float16, 16384, 1),
    ],
)
def test_few_registers_hold_fewer_rows_and_a_far_cache_is_asked_long_before(
    direction, dtype, hidden, rows, monkeypatch
):
    given = 1 << 20, hidden, np.dtype(dtype), direction
    monkeypatch.setattr(numba_plan, "_caches", lambda: (2 << 20, 1 << 50))  # nothing comes from memory
    monkeypatch.setattr(numba_plan.numba_reach, "of_thread", lambda inner, last_level, direction: inner)
    monkeypatch.setattr(numba_plan, "_chosen", numba_plan._chosen.__wrapped__)
    monkeypatch.setattr(processor, "asks_far", lambda: False)
    monkeypatch.setattr(processor, "few_registers", lambda: False)
    monkeypatch.setattr(processor, "single_rows", lambda: False)
    usual = numba_plan.choose(*given)
    monkeypatch.setattr(processor, "few_registers", lambda: True)
    assert numba_plan.choose(*given) == usual._replace(group=rows)
    monkeypatch.setattr(processor, "asks_far", lambda: True)
    far = numba_plan.choose(*given)
    assert far == usual._replace(group=rows, ahead=far.ahead, stretch=0, spread=0)
    assert usual.ahead < numba_pace.FAR_AHEAD <= far.ahead
    monkeypatch.setattr(processor, "single_rows", lambda: True)
    assert numba_plan.choose(*given) == far._replace(group=1, ahead=numba_plan.choose(*given).ahead)


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="reads the code of x86-64")
@pytest.mark.parametrize(("far", "asked"), [(True, "prefetcht1"), (False, "prefetcht0")])
def test_the_cache_that_is_asked_is_compiled_in(far, asked, monkeypatch):
    monkeypatch.setattr(numba_walk, "FAR", far)
    ask_line = njit(forceinline=True)(numba_walk.ask_line.py_func)
    asking = njit(lambda x, start: ask_line(x, start, zeros(x, 1)))
    asking.compile((typeof(np.zeros(1, np.float32)), intp))
    (code,) = asking.inspect_asm().values()
    assert {word for word in code.split() if word.startswith("prefetch")} == {asked}

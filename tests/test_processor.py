"""What numba_fused derives from the processor's design: the cache level of prefetches, rows in a group."""

import platform
from types import SimpleNamespace

import numpy as np
import pytest
from numba import intp, njit, typeof

from layernorm_backward.kernels import numba_plan, numba_tuning, numba_walk, processor
from layernorm_backward.kernels.lanes import zeros
from layernorm_backward.kernels.processor import Traits


@pytest.fixture
def asked(monkeypatch):
    """Puts another processor in place of this one; returns the list of queries to it."""

    def stand_in(design, features):
        asked = []

        def magic_tuple():
            asked.append(design)
            return "x86_64-unknown-linux-gnu", design, features

        codegen = SimpleNamespace(magic_tuple=magic_tuple)
        context = SimpleNamespace(codegen=lambda: codegen)
        monkeypatch.setattr(processor, "cpu_target", SimpleNamespace(target_context=context))
        processor.traits.cache_clear()
        return asked

    yield stand_in
    processor.traits.cache_clear()


@pytest.mark.parametrize(
    ("design", "features", "traits"),
    [
        ("znver3", "+avx,+avx2", {"few_registers", "prefetch_to_l2", "single_rows"}),
        ("znver4", "+avx,+avx2,-avx512f", {"few_registers", "prefetch_to_l2"}),
        ("znver4", "+avx2,+avx512f,+avx512bw", {"prefetch_to_l2"}),
        ("sapphirerapids", "+avx2,+avx512f", {"paged_backward", "short_alone"}),
        ("emeraldrapids", "+avx2,+avx512f", {"paged_backward", "short_alone"}),
        ("graniterapids", "+avx2,+avx512f", set()),
        ("rocketlake", "+avx2,+avx512f", set()),
        ("haswell", "+avx2,-avx512f", {"few_registers"}),
        ("generic", "", {"few_registers"}),
    ],
)
def test_the_traits_follow_from_the_design_and_the_features(design, features, traits, asked):
    asked(design, features)
    assert {name for name, holds in processor.traits()._asdict().items() if holds} == traits


@pytest.mark.parametrize(("design", "groups"), [("znver3", {1}), ("znver4", {1, 2})])
def test_groups_on_a_zen_without_avx_512(design, groups, asked):
    asked(design, "+avx2")
    numba_plan._chosen.cache_clear()
    found = {
        numba_plan.choose(1 << 20, hidden, np.dtype(np.float32), direction).group
        for direction in ("forward", "backward")
        for hidden in (64, 1024, 4096, 65536)
    }
    numba_plan._chosen.cache_clear()
    assert found == groups


def test_the_traits_are_cached(asked):
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
def test_few_registers_mean_smaller_groups_and_l2_prefetches_a_longer_distance(
    direction, dtype, hidden, rows, monkeypatch
):
    given = 1 << 20, hidden, np.dtype(dtype), direction
    monkeypatch.setattr(numba_plan, "_caches", lambda: (2 << 20, 1 << 50))  # nothing comes from memory
    monkeypatch.setattr(
        numba_plan.numba_residency, "bytes_per_thread", lambda inner, last_level, direction: inner
    )
    monkeypatch.setattr(numba_plan, "_chosen", numba_plan._chosen.__wrapped__)
    monkeypatch.setattr(processor, "traits", Traits)
    usual = numba_plan.choose(*given)
    monkeypatch.setattr(processor, "traits", lambda: Traits(few_registers=True))
    assert numba_plan.choose(*given) == usual._replace(group=rows)
    monkeypatch.setattr(processor, "traits", lambda: Traits(few_registers=True, prefetch_to_l2=True))
    far = numba_plan.choose(*given)
    assert far == usual._replace(group=rows, ahead=far.ahead, stretch=0, spread=0)
    assert usual.ahead < numba_tuning.L2_AHEAD <= far.ahead
    monkeypatch.setattr(processor, "traits", lambda: Traits(True, True, True))
    assert numba_plan.choose(*given) == far._replace(group=1, ahead=numba_plan.choose(*given).ahead)


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="reads the code of x86-64")
@pytest.mark.parametrize(("far", "asked"), [(True, "prefetcht1"), (False, "prefetcht0")])
def test_the_cache_level_of_prefetches_is_compiled_in(far, asked, monkeypatch):
    monkeypatch.setattr(numba_walk, "PREFETCH_L2", far)
    prefetch_line = njit(forceinline=True)(numba_walk.prefetch_line.py_func)
    asking = njit(lambda x, start: prefetch_line(x, start, zeros(x, 1)))
    asking.compile((typeof(np.zeros(1, np.float32)), intp))
    (code,) = asking.inspect_asm().values()
    assert {word for word in code.split() if word.startswith("prefetch")} == {asked}

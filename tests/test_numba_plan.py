"""Plans of numba_fused: what rows, row length, dtype and the machine decide, and what is refused."""

import numpy as np
import pytest

from layernorm_backward import stopwatch
from layernorm_backward.directions import TENSORS
from layernorm_backward.kernels import numba_chunks, numba_fused, numba_plan, numba_tuning, processor
from layernorm_backward.kernels.processor import Traits

EPS = 1e-5


@pytest.mark.parametrize("hidden", [1, 1024, 4096, 65536])
def test_chunks_keep_partial_sums_small_and_several_threads_busy(hidden):
    for rows in (0, 1, 16, 17, 63, 64, 127, 128, 4096, 10**6):
        chunks = numba_plan.chunks(rows, hidden)
        few = min(-(-rows // 16), 4) if hidden >= 4096 else 1
        assert 1 <= chunks <= max(1, min(rows / 32, 8), min(rows / 64, 64), few)
        assert chunks >= 2 or (rows < 64 and few < 2)
    assert numba_plan.chunks(10**6, hidden) == 64


@pytest.mark.parametrize("hidden", [1, 4096])
def test_blocks_are_short_and_share_a_chunk_evenly(hidden):
    """Errors of dgamma and dbeta grow with the rows of a block, and a thread with more of them ends later."""
    for rows in (*range(1, 300), 682, 2730, 4097, 10922, 10**6):
        block, chunks = numba_plan.block(rows, hidden), numba_plan.chunks(rows, hidden)
        assert block <= 32
        assert block % max(numba_plan.GROUPS) == 0
        starts = [numba_chunks._chunk_start.py_func(k, chunks, rows, block) for k in range(chunks + 1)]
        assert (starts[0], starts[-1]) == (0, rows)
        assert max(np.diff(starts)) <= rows / chunks + block


@pytest.fixture
def on_a_xeon(monkeypatch):
    """Plans for caches of 2 and 32 MB in which results stay, on a Xeon with AVX-512."""
    monkeypatch.setattr(numba_plan, "_caches", lambda: (2 << 20, 32 << 20))
    monkeypatch.setattr(
        numba_plan.numba_residency, "bytes_per_thread", lambda inner, last_level, direction: last_level
    )
    fifth = Traits(paged_backward=True, short_alone=True)
    monkeypatch.setattr(processor, "traits", lambda: fifth)
    numba_plan._chosen.cache_clear()
    yield
    numba_plan._chosen.cache_clear()


@pytest.mark.parametrize(
    ("rows", "hidden", "dtype", "direction", "stretch"),
    [
        (10**5, 256, "float32", "backward", 1024),
        (10**5, 1024, "float32", "backward", 256),
        (10**5, 1025, "float64", "backward", 127),
        (10**5, 1024, "float64", "backward", 0),
        (10**6, 64, "bfloat16", "backward", 0),
        (10**3, 1024, "float32", "backward", 0),
        (10**5, 1024, "float32", "forward", 0),
    ],
    ids=str,
)
def test_statistics_of_as_many_rows_as_fill_the_second_level_are_copied(
    rows, hidden, dtype, direction, stretch, on_a_xeon
):
    """Not by pairs of rows, of the shortest rows, in the cache, or where none are read."""
    assert numba_plan.choose(rows, hidden, np.dtype(dtype), direction).stretch == stretch


def test_no_statistics_are_copied_where_prefetches_go_to_l2(on_a_xeon, monkeypatch):
    monkeypatch.setattr(processor, "traits", lambda: Traits(prefetch_to_l2=True))
    assert numba_plan.choose(10**5, 1024, np.dtype("float32")).stretch == 0


@pytest.mark.parametrize(
    ("rows", "hidden", "dtype", "direction", "kept"),
    [
        (10**6, 64, "float16", "backward", True),
        (10**5, 1024, "float16", "backward", True),
        (10**5, 1025, "float16", "backward", True),
        (10**5, 1312, "float16", "backward", True),
        (10**5, 1344, "float16", "backward", False),
        (10**6, 64, "bfloat16", "backward", True),
        (10**5, 1312, "bfloat16", "backward", True),
        (10**5, 1344, "bfloat16", "backward", False),
        (10**3, 1024, "float16", "backward", False),
        (10**3, 1024, "bfloat16", "backward", False),
        (10**6, 1024, "float16", "forward", True),
        (10**6, 513, "bfloat16", "forward", True),
        (10**6, 2048, "bfloat16", "forward", True),
        (10**6, 2816, "bfloat16", "forward", True),
        (10**6, 2849, "float16", "forward", False),
        (10**6, 3072, "bfloat16", "forward", False),
        (10**6, 223, "float16", "forward", False),
        (10**6, 224, "float16", "forward", True),
        (10**3, 1024, "float16", "forward", False),
        (10**6, 1024, "float32", "forward", False),
        (10**5, 512, "float32", "backward", False),
    ],
    ids=str,
)
def test_short_16_bit_rows_are_buffered_widened_beyond_the_cache(
    rows, hidden, dtype, direction, kept, on_a_xeon
):
    assert numba_plan.choose(rows, hidden, np.dtype(dtype), direction).widened == kept


def test_no_rows_are_buffered_where_registers_are_few(on_a_xeon, monkeypatch):
    monkeypatch.setattr(processor, "traits", lambda: Traits(few_registers=True))
    assert not numba_plan.choose(10**5, 1024, np.dtype("float16")).widened


def test_rows_are_buffered_without_copies_of_their_statistics_on_a_zen(on_a_xeon, monkeypatch):
    monkeypatch.setattr(processor, "traits", lambda: Traits(prefetch_to_l2=True))
    plan = numba_plan.choose(10**5, 1024, np.dtype("float16"))
    assert plan.widened
    assert plan.stretch == 0
    for hidden, dtype in ((1088, "float16"), (1024, "bfloat16")):
        assert not numba_plan.choose(10**5, hidden, np.dtype(dtype)).widened


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_ragged_rows_have_the_prefetch_distance_of_single_rows(direction, on_a_xeon):
    for hidden, alone in ((1025, True), (2049, True), (2048, False), (4097, False)):
        plan = numba_plan.choose(500, hidden, np.dtype("float32"), direction)
        assert (plan.group == 1 and plan.ahead == numba_tuning.NEXT_PAGE) == alone


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_prefetches_are_interleaved_where_the_arrays_exceed_the_last_level(direction, on_a_xeon, monkeypatch):
    """Results are streamed from smaller sizes on."""
    monkeypatch.setattr(
        numba_plan.numba_residency, "bytes_per_thread", lambda inner, last_level, direction: inner
    )
    whole = (32 << 20) // (4 * 1024 * TENSORS[direction])
    for rows, pages in ((whole, 1), (whole + 1, numba_tuning.PAGES)):
        plan = numba_plan.choose(rows, 1024, np.dtype("float32"), direction, threads=1)
        assert plan.stream and plan.pages == pages


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"group": 3}, r"group is 3; allowed: \(1, 2, 4\)"),
        (
            {"pages": 8, "ahead": 64, "group": 2},
            "pages is 8, ahead 64, group 2; allowed: 1 page, or powers of",
        ),
        (
            {"pages": 3, "ahead": 64, "group": 1},
            "pages is 3, ahead 64, group 1; allowed: 1 page, or powers of",
        ),
        (
            {"pages": 8, "ahead": 44, "group": 1},
            "pages is 8, ahead 44, group 1; allowed: 1 page, or powers of",
        ),
        ({"pages": 8, "ahead": 4, "group": 1}, "pages is 8, ahead 4, group 1; allowed: 1 page, or powers of"),
        (
            {"pages": 0, "ahead": 64, "group": 1},
            "pages is 0, ahead 64, group 1; allowed: 1 page, or powers of",
        ),
        ({"group": 4, "block": 6}, "block is 6; allowed: multiples of the 4 rows of a group"),
        ({"chunks": 0}, "chunks is 0, ahead .*; allowed: from 1, from 0, from 0"),
        ({"ahead": -1}, "ahead -1, spread .*; allowed: from 1, from 0, from 0"),
        ({"spread": -1}, "spread -1; allowed: from 1, from 0, from 0"),
        ({"block": 8, "stretch": 7}, "stretch is 7; allowed: 0 and from the 8 rows of a block on"),
        ({"stretch": -1}, "stretch is -1; allowed: 0 and from"),
    ],
    ids=str,
)
def test_a_plan_that_cannot_be_executed_is_refused(changed, told, problem):
    x, gamma, beta, dy = problem((8, 64), "float32")
    _, saved = numba_fused.forward(x, gamma, beta, EPS)
    plan = numba_plan.choose(*x.shape, x.dtype)._replace(**changed)
    with pytest.raises(ValueError, match=told):
        numba_fused.backward(dy, saved, plan=plan)


@pytest.mark.parametrize(("grains", "tasks"), [(0, 1), (1, 1), (1.99, 1), (2, 2), (1000, 2)])
@pytest.mark.parametrize(("itemsize", "worked_on"), [(8, 8), (4, 4), (2, 4)])
def test_another_thread_is_woken_where_there_is_work_for_it(grains, tasks, itemsize, worked_on):
    size = int(grains * numba_plan.GRAIN) // worked_on
    with stopwatch.threads(2):
        assert numba_plan.tasks(size, itemsize) == tasks
    with stopwatch.threads(1):
        assert numba_plan.tasks(size, itemsize) == 1

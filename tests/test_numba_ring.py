"""The ring buffer writes rows that begin and end within lines: all elements, once, and no others."""

import numpy as np
import pytest
from numba import get_num_threads, njit, set_num_threads

from layernorm_backward.aligned import aligned_empty
from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of
from layernorm_backward.kernels import numba_fused, numba_plan
from layernorm_backward.kernels.lane_memory import as_stored, elements, fence, load, stack_lines
from layernorm_backward.kernels.lanes import LINE, by_parity, height, width, zeros
from layernorm_backward.kernels.numba_ring import RING_LINES, flush, write
from layernorm_backward.traffic.arrays import Tally
from layernorm_backward.traffic.lanes import counting

ALL_HELD = 4 * RING_LINES


@pytest.fixture
def one_thread():
    threads = get_num_threads()
    set_num_threads(1)
    yield
    set_num_threads(threads)


@njit(error_model="numpy")
def _copy_group(x, out, i, hidden, ring, like):
    lanes, at = width(like), i * hidden
    for j in range(0, hidden - lanes + 1, lanes):
        write(load(x, at + j, hidden, None, like), out, at + j, hidden, None, True, ring)
    rest = hidden % lanes
    if rest:
        values = load(x, at + hidden - rest, hidden, rest, like)
        write(values, out, at + hidden - rest, hidden, rest, True, ring)


@njit(error_model="numpy")
def _copy(x, out, span, hidden, first, like):
    """Rows from span[0] to span[1]: single ones in one run, those of a group each in its own."""
    x, out = elements(x), elements(out)
    held, begin = stack_lines(out, ALL_HELD), span[0]
    for i in range(span[0], span[1], height(like)):
        ring, behind = (held, first, begin * hidden), i + height(like)
        _copy_group(x, out, i, hidden, ring, like)
        if height(like) > 1 or behind == span[1]:
            flush(out, (i + 1) * hidden, hidden, ring, like)
            begin = behind
    fence()


COPY = {
    1: njit(lambda x, out, span, hidden, first: _copy(x, out, span, hidden, first, by_parity(zeros(x, 1)))),
    2: njit(lambda x, out, span, hidden, first: _copy(x, out, span, hidden, first, by_parity(zeros(x, 2)))),
    4: njit(lambda x, out, span, hidden, first: _copy(x, out, span, hidden, first, by_parity(zeros(x, 4)))),
}


@pytest.mark.parametrize("group", COPY)
@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_rows_of_any_alignment_are_written_and_nothing_else_changes(dtype, group):
    dtype, rng = dtype_of(dtype), np.random.default_rng(3)
    lanes = LINE // dtype.itemsize
    lines = (1, 3, 8, RING_LINES, 70)
    for hidden in (1, 2, *(lanes * many + more for many in lines for more in (-1, 0, 1, 5))):
        for begin in (0, 1, lanes - 1):
            x = rng.standard_normal((12, hidden)).astype(np.float32).astype(dtype).reshape(-1)
            held = aligned_empty(begin + x.size + lanes, dtype)
            held[...] = np.nan
            out = held[begin : begin + x.size]
            COPY[group](as_stored(x), as_stored(out), (4, 8), hidden, -begin % lanes)
            wanted = np.full(x.size, np.nan, dtype)
            wanted[4 * hidden : 8 * hidden] = x[4 * hidden : 8 * hidden]
            assert np.array_equal(out.view(np.uint8), wanted.view(np.uint8)), (hidden, begin)
            assert np.isnan(held[:begin].astype(float)).all() and np.isnan(held[-lanes:].astype(float)).all()


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("hidden", [5, 37, 200, 3100])
def test_each_element_is_written_once_and_streamed_except_at_the_ends(hidden, direction, one_thread):
    rows, rng = 40, np.random.default_rng(4)
    x, dy, result = (aligned_empty((rows, hidden), np.float32) for _ in range(3))
    x[...], dy[...] = rng.standard_normal((2, rows, hidden))
    vector, tally = np.ones(hidden, np.float32), Tally(cache=2 * result.size)
    plan = numba_plan.choose(rows, hidden, x.dtype, direction)._replace(stream=True, chunks=1, group=1)
    _, saved = numba_fused.forward(x, vector, vector, 1e-5)
    with counting(tally, [result]) as kernel:
        if direction == "forward":
            kernel.forward(x, vector, vector, 1e-5, out=result, plan=plan)
        else:
            kernel.backward(dy, kernel.Saved(*saved), (result, vector.copy(), vector.copy()), plan)
    lanes = LINE // result.itemsize
    assert tally.writes == result.size
    assert tally.memory_writes == result.size - result.size % lanes

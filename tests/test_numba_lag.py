"""Staggered groups, against conflicts in the first-level cache: the same bits, and where they are used."""

import numpy as np
import pytest
from numba import get_num_threads

from layernorm_backward.aligned import aligned_empty
from layernorm_backward.directions import DIRECTIONS
from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of
from layernorm_backward.kernels import numba_calls, numba_fused, numba_plan, numba_tuning
from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.kernels.numba_calls import Code
from layernorm_backward.kernels.numba_walk import BLOCK, LEAD
from layernorm_backward.kernels.processor import Traits

EPS = 1e-5
L2 = 1 << 20


def _bits(arrays):
    return [array.copy().view(np.uint8) for array in arrays]


@pytest.mark.parametrize("lines", [2 * LEAD, 2 * LEAD + 1, 3 * BLOCK - 1, 4 * BLOCK + 2])
@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_no_bit_is_another_than_of_single_rows(dtype, lines, problem):
    """Last blocks of lines of any length, rows left over, one group alone, chunks of several blocks."""
    for rows in (2, 5, 7, 67):
        x, gamma, beta, dy = problem((rows, lines * LINE // dtype_of(dtype).itemsize), dtype)
        default = numba_plan.choose(*x.shape, x.dtype)._replace(block=8, stretch=0, widened=False)
        found = []
        for group, lag, stream in ((1, False, True), (2, True, True), (4, True, True), (2, True, False)):
            plan = default._replace(group=group, lag=lag, stream=stream)
            y, dx = (aligned_empty(x.shape, x.dtype) for _ in range(2))
            _, saved = numba_fused.forward(x, gamma, beta, EPS, out=y, plan=plan)
            results = numba_fused.backward(dy, saved, (dx, gamma.copy(), gamma.copy()), plan)
            found.append(_bits((y, saved.mean, saved.rstd, *results)))
        for results in found[1:]:
            for result, first in zip(results, found[0], strict=True):
                assert np.array_equal(result, first)


def test_a_row_far_from_its_first_line_is_swept_again_in_a_lagging_group_too():
    x = np.zeros((9, 1024), np.float32)
    x[:, 16:] = np.linspace(1e4, 1e4 + 1, 1008, dtype=np.float32) + np.arange(9, dtype=np.float32)[:, None]
    vector, plan = np.ones(1024, np.float32), numba_plan.choose(9, 1024, x.dtype, "forward")
    alone, four = plan._replace(group=1, lag=False), plan._replace(group=4, lag=True)
    y, saved = numba_fused.forward(x, vector, vector, EPS, aligned_empty(x.shape, x.dtype), alone)
    y4, saved4 = numba_fused.forward(x, vector, vector, EPS, aligned_empty(x.shape, x.dtype), four)
    assert np.array_equal(y, y4)
    assert np.array_equal(saved.rstd, saved4.rstd)


@pytest.mark.parametrize(
    ("hidden", "begin", "group", "lag"),
    [(1024, 0, 2, True), (512, 0, 2, True), (496, 0, 2, False), (1024, 4, 2, False), (1024, 0, 1, False)],
    ids=["long", "just long enough", "too short", "begins within a line", "single rows"],
)
def test_code_of_lagging_groups_runs_where_it_can(hidden, begin, group, lag):
    plan = numba_plan.Plan(group=group, ahead=8, stream=True, chunks=2, lag=True)
    float32, threads = np.dtype("float32"), get_num_threads()
    ragged, rows = begin > 0, 1 if begin else group
    for direction in DIRECTIONS:
        call = numba_calls.call(direction, (64, hidden), float32, float32, threads, begin, plan)
        assert call.compiled is Code(direction, "float32", rows, ragged, lag=lag).compiled()


@pytest.mark.parametrize(
    ("direction", "dtype", "row_bytes", "tuning"),
    [
        ("backward", "float32", 4096, (1, False)),
        ("backward", "float32", 4160, (2, True)),
        ("backward", "float64", 1 << 19, (2, True)),
        ("backward", "float32", 16388, (1, False)),
        ("backward", "bfloat16", 65536, (1, False)),
        ("backward", "float16", 131072, (2, False)),
        ("forward", "float32", 256, (4, False)),
        ("forward", "float32", 5120, (1, False)),
        ("forward", "float64", 8192, (4, True)),
        ("forward", "float64", 16392, (1, False)),
        ("forward", "float16", 8192, (1, False)),
        ("forward", "bfloat16", 8192, (2, False)),
        ("forward", "bfloat16", 4096, (1, False)),
        ("forward", "bfloat16", 128, (2, False)),
    ],
    ids=str,
)
def test_a_zen_with_avx_512_staggers_long_rows(direction, dtype, row_bytes, tuning):
    found = numba_tuning.choose(row_bytes, dtype_of(dtype), direction, L2, Traits(prefetch_to_l2=True))
    assert (found.group, found.lag) == tuning
    assert found.ahead >= numba_tuning.L2_AHEAD
    assert found.spread == (numba_tuning.L2_SPREAD if found.lag else 0)


def test_no_other_processor_does():
    for traits in (Traits(), Traits(few_registers=True), Traits(True, True)):
        for direction in ("forward", "backward"):
            for row_bytes in (64, 4096, 16384, 1 << 18):
                tuning = numba_tuning.choose(row_bytes, np.dtype("float32"), direction, L2, traits)
                assert not tuning.lag

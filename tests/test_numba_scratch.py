"""The scratch of numba_fused: arrays side by side in one block, where loads do not wait for stores."""

from itertools import pairwise

import numpy as np
import pytest

from layernorm_backward.aligned import PAGE
from layernorm_backward.kernels import numba_scratch

LINE = 64


def address(array):
    return array.__array_interface__["data"][0]


def placed(layout, *vectors, dtype, cut):
    """The arrays that are cut from a block, which begins where NumPy puts it."""
    held = np.empty(layout.size, dtype)
    arrays = cut(held, layout.places, *vectors)
    ends = sorted((address(array), address(array) + array.nbytes) for array in arrays if array.size)
    assert address(held) <= ends[0][0] and ends[-1][1] <= address(held) + held.nbytes
    for before, behind in pairwise(ends):
        assert before[1] <= behind[0]
    return arrays


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("rows", "chunks", "block", "tasks"), [(1, 1, 4, 1), (341, 8, 32, 2), (5000, 4, 32, 3)], ids=str
)
@pytest.mark.parametrize(("stretch", "widened"), [(0, False), (33, False), (33, True)], ids=str)
@pytest.mark.parametrize("hidden", [1, 64, 1023, 65536])
def test_the_backward_pass_has_gamma_and_arrays_of_its_own(
    hidden, stretch, widened, rows, chunks, block, tasks, dtype
):
    gamma, itemsize = np.arange(1, hidden + 1, dtype=dtype), np.dtype(dtype).itemsize
    columns = -(-hidden // 16) * 16 + 16
    layout = numba_scratch.of_backward(chunks, block, stretch, rows, tasks, columns, itemsize, widened)
    arrays = placed(layout, gamma, dtype=dtype, cut=numba_scratch.cut_backward)
    vector, sums, levels, parts, copies = arrays
    assert address(vector) % PAGE == 0
    assert np.array_equal(vector, [*gamma, *[0] * (columns - hidden)])
    assert sums.shape == (chunks, 2 * columns)
    blocks = -(-rows // block)
    assert levels.shape[::2] == (tasks, 2 * columns) and 2 ** levels.shape[1] >= -(-blocks // chunks)
    assert copies.shape[:2] == (tasks, 2)
    assert copies.shape[2] >= stretch + numba_scratch.BEYOND if stretch else copies.size == 0
    count = 4 if widened else 2
    for part in parts:
        held = [numba_scratch.part_row(part, which, count, columns) for which in range(count)]
        assert address(held[0]) - address(part) == numba_scratch.APART
        assert held[-1].size == columns
        for row, following in pairwise(held):
            apart = address(following) - address(row)
            assert apart >= columns * itemsize and apart % PAGE == PAGE // count
        assert all(address(row) % LINE == 0 for row in held)


@pytest.mark.parametrize("hidden", [64, 2048])
def test_running_sums_of_short_rows_are_not_where_rows_lie_modulo_a_page(hidden):
    layout = numba_scratch.of_backward(1, 32, 0, 64, 1, hidden, 4)
    parts = placed(layout, np.ones(hidden, np.float32), dtype=np.float32, cut=numba_scratch.cut_backward)[3]
    assert address(parts) % PAGE == numba_scratch.ASIDE


@pytest.mark.parametrize("hidden", [1, 64, 1023])
def test_the_forward_pass_has_gamma_and_beta(hidden):
    gamma, beta = np.arange(hidden, dtype=np.float32), -np.arange(hidden, dtype=np.float32)
    columns = -(-hidden // 16) * 16
    layout = numba_scratch.of_forward(columns, 4)
    *found, kept = placed(layout, gamma, beta, dtype=np.float32, cut=numba_scratch.cut_forward)
    assert address(found[0]) % PAGE == 0
    assert kept.size == 0 and layout.size == 2 * columns + PAGE // 4
    for vector, given in zip(found, (gamma, beta), strict=True):
        assert address(vector) % LINE == 0
        assert np.array_equal(vector, [*given, *[0] * (columns - hidden)])


@pytest.mark.parametrize("hidden", [1, 64, 512, 1024, 1536, 2047])
@pytest.mark.parametrize("tasks", [1, 3])
def test_each_task_keeps_a_row_forward_apart_from_gamma_beta_and_the_others(hidden, tasks):
    vector, columns = np.zeros(hidden, np.float32), -(-hidden // 32) * 32
    layout = numba_scratch.of_forward(columns, 4, tasks)
    gamma, beta, kept = placed(layout, vector, vector, dtype=np.float32, cut=numba_scratch.cut_forward)
    assert kept.shape[0] == tasks
    assert kept.strides[0] >= 4 * columns + numba_scratch.APART
    for row in kept:
        assert address(row) % LINE == 0
        for other in (gamma, beta):
            apart = (address(row) - address(other)) % PAGE
            assert min(apart, PAGE - apart) >= PAGE // 4

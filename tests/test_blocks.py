"""Large arrays are written and compared in blocks, by all cores."""

import threading

import numpy as np
import pytest

from layernorm_backward import machine
from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of
from layernorm_backward.timing import blocks
from layernorm_backward.timing.repeated import Repeated


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("count", [0, 1, 6, 7, 8, 15])
def test_every_element_is_filled_and_none_beside(monkeypatch, dtype, count):
    monkeypatch.setattr(blocks.blocks, "__defaults__", (7,))
    around = np.ones(count + 2, dtype_of(dtype))
    blocks.fill(around[1:-1], np.nan)
    assert np.isnan(around.astype(float)).tolist() == [False, *[True] * count, False]


def test_blocks_are_views_of_an_array_in_its_order():
    array = np.arange(24).reshape(2, 3, 4)
    found = list(blocks.blocks(array, 10))
    assert [part.tolist() for part in found] == [[*range(10)], [*range(10, 20)], [*range(20, 24)]]
    assert all(np.shares_memory(part, array) for part in found)


def test_work_is_shared_by_all_cores_and_what_it_returns_keeps_its_order(monkeypatch):
    monkeypatch.setattr(machine, "usable_cores", lambda: 3)
    met = threading.Barrier(3, timeout=60)

    def work(part):
        met.wait()
        return part * part

    assert blocks.on_all_cores(work, range(6)) == [0, 1, 4, 9, 16, 25]


def test_an_error_in_a_block_is_raised():
    with pytest.raises(ZeroDivisionError):
        blocks.on_all_cores(lambda part: 1 // part, [1, 0, 2])


@pytest.mark.parametrize("size", [4, 5, 13])
def test_a_block_is_repeated_to_the_end_bit_for_bit(size):
    block = np.array([1.0, -0.0, np.nan, 4.0, 5.0], np.float32)
    its = Repeated(np.zeros(size, np.float32), block)
    its.fill()
    assert its.array.tobytes() == np.resize(block, size).tobytes() and its.intact()
    its.array[-1] = 7
    assert not its.intact()

"""numpy_blocked: the same bits for every cache, every row added once, nothing left behind."""

import numpy as np
import pytest

from layernorm_backward.dtypes import dtype_of
from layernorm_backward.kernels import numpy_blocked, row_blocks
from layernorm_backward.kernels.row_blocks import Blocks, RowSums, blocks

EPS = 1e-5
CACHES = (1 << 12, 1 << 17, 1 << 21, 1 << 30)


def run(x, gamma, beta, dy):
    y, saved = numpy_blocked.forward(x, gamma, beta, EPS)
    return y, *numpy_blocked.backward(dy, saved)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("shape", [(1000, 65), (333, 1), (77, 4097), (3000, 2)], ids=str)
def test_bits_do_not_depend_on_the_cache(dtype, shape, problem, monkeypatch):
    data, found = problem(shape, dtype), []
    for cache in CACHES:
        monkeypatch.setattr(row_blocks, "_second_level_cache", lambda cache=cache: cache)
        found.append([result.tobytes() for result in run(*data)])
    assert all(results == found[0] for results in found)


def test_bits_would_depend_on_the_block_if_groups_did(problem, monkeypatch):
    data, found = problem((1000, 65), "float32"), set()
    for group in (16, 8):
        monkeypatch.setattr(row_blocks, "GROUP", group)
        found.add(run(*data)[2].tobytes())
    assert len(found) == 2


@pytest.mark.parametrize("hidden", [1, 64, 4096, 65536])
@pytest.mark.parametrize("cache", CACHES)
def test_a_block_is_a_power_of_two_of_groups_that_depend_on_the_row_alone(hidden, cache, monkeypatch):
    monkeypatch.setattr(row_blocks, "_second_level_cache", lambda: cache)
    sizes = blocks(hidden, 4)
    many = sizes.block // sizes.group
    assert many * sizes.group == sizes.block and many & (many - 1) == 0
    assert sizes.group == {1: 16, 64: 16, 4096: 8, 65536: 1}[hidden]
    assert many == 1 or 4 * hidden * sizes.block <= cache / row_blocks.SHARE


@pytest.mark.parametrize("rows", [0, 1, 15, 16, 17, 63, 64, 65, 1000])
def test_row_sums_add_every_row_once(rows):
    terms = np.arange(3.0 * rows).reshape(rows, 3)
    sums = RowSums(Blocks(4, 16), 3, np.dtype(float))
    for start in range(0, rows, 16):
        sums.add(terms[start : start + 16])
    assert np.array_equal(sums.total(), terms.sum(axis=0))


@pytest.mark.parametrize("hidden", [64, 512])
def test_the_buffer_of_numpy_is_as_it_was(hidden, problem):
    before = np.getbufsize()
    run(*problem((3, hidden), "float64"))
    assert np.getbufsize() == before
    with pytest.raises(RuntimeError), row_blocks.buffers_for(hidden):
        assert np.getbufsize() == (16 if hidden == 512 else before)
        raise RuntimeError
    assert np.getbufsize() == before


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gamma_in_float32_beside_16_bit_x_keeps_sums_in_float32(dtype):
    rng = np.random.default_rng(3)
    x, dy = (rng.standard_normal((300, 40)).astype(dtype_of(dtype)) for _ in range(2))
    ones = np.ones(40, np.float32)
    dbeta = run(x, ones, ones, dy)[3]
    assert dbeta.dtype == np.float32
    assert np.allclose(dbeta, dy.astype(np.float64).sum(axis=0), rtol=1e-5, atol=1e-4)

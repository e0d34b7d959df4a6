"""The pace of numba_fused: what single rows ask for ahead of a far cache lies where no result is written."""

import numpy as np
import pytest

from layernorm_backward.dtypes import dtype_of
from layernorm_backward.kernels import numba_pace
from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.kernels.numba_ring import LATE

L2 = 1 << 20
IN_PAGE = 4096 // LINE  # lines


def chosen(row_bytes, direction, few, far=True, memory=True):
    return numba_pace.choose(row_bytes, np.dtype("float32"), direction, L2, few, far, memory=memory)


def between(row_bytes, ahead):
    """Lines, modulo a page, between a result of one row and what is asked for `ahead` of the next."""
    late = LATE if row_bytes % LINE else 0
    gap = (row_bytes // LINE + ahead + late) % IN_PAGE
    return min(gap, IN_PAGE - gap)


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("few", [False, True])
def test_a_single_row_asks_for_nothing_where_its_results_are_written(direction, few):
    for row_bytes in range(LINE, 1 << 17, LINE // 4):
        pace = chosen(row_bytes, direction, few)
        if pace.group == 1:
            assert between(row_bytes, pace.ahead) >= numba_pace.NEAREST, row_bytes


@pytest.mark.parametrize(
    ("row_bytes", "ahead"), [(2048, 112), (2052, 96), (1540, 112), (1024, 96), (4096, 96)]
)
def test_only_rows_that_would_do_so_ask_farther_ahead(row_bytes, ahead):
    assert numba_pace.FAR_AHEAD == 96
    assert chosen(row_bytes, "backward", few=False).ahead == ahead


def test_nothing_of_it_where_the_first_level_cache_is_asked():
    assert chosen(2048, "backward", few=False, far=False, memory=False).ahead == numba_pace.NEXT_PAGE


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize(("few", "far"), [(False, True), (True, False), (True, True)])
def test_only_on_a_xeon_does_the_pace_of_short_rows_depend_on_where_results_go(direction, few, far):
    for row_bytes in (256, 4100, 16384, 1 << 16):
        pace = chosen(row_bytes, direction, few, far, memory=False)
        how = row_bytes, np.dtype("float32"), direction, L2, few, far
        assert numba_pace.choose(*how, stream=False, memory=False) == pace


@pytest.mark.parametrize(
    ("direction", "dtype", "groups"),
    [
        ("backward", "float32", {512: 1, 1024: 2, 4096: 2, 8192: 2}),
        ("backward", "float16", {1024: 1, 2048: 1, 4096: 1, 8192: 2}),
        ("forward", "float64", {2048: 1, 4096: 1, 8192: 1, 16384: 4}),
    ],
)
def test_rows_side_by_side_on_a_xeon_that_keeps_them_in_its_caches(direction, dtype, groups):
    """The sums of a backward pass are shared by pairs there; statistics of several rows cost nothing less."""
    for row_bytes, group in groups.items():
        kept = numba_pace.choose(row_bytes, np.dtype(dtype), direction, L2, False, False, stream=False)
        assert kept.group == group, row_bytes


@pytest.mark.parametrize(
    ("direction", "dtype", "groups"),
    [
        ("backward", "float32", {64: 1, 1024: 1, 2048: 2, 32768: 2, 65536: 1, 131072: 4}),
        ("backward", "float64", {512: 1, 1024: 2, 16384: 2, 32768: 1, 65536: 4}),
        ("backward", "float16", {2048: 1, 4096: 2, 32768: 2, 65536: 1, 131072: 4}),
        ("forward", "float32", {64: 1, 512: 1, 768: 4, 16384: 4, 32768: 2}),
        ("forward", "float16", {64: 4, 96: 2, 512: 1, 1536: 4, 32768: 4, 65536: 2}),
    ],
)
def test_rows_side_by_side_on_a_xeon_with_2_mb_of_l2(direction, dtype, groups):
    def group(hidden):
        row_bytes = hidden * np.dtype(dtype).itemsize
        how = np.dtype(dtype), direction, 2 << 20, False, False
        return numba_pace.choose(row_bytes, *how, memory=False).group

    assert {hidden: group(hidden) for hidden in groups} == groups


PAGED = [
    ("forward", "float32", 64, True),
    ("forward", "float32", 4100, True),
    ("forward", "float32", 8192, True),
    ("forward", "float64", 8256, False),
    ("forward", "float64", 10004, True),
    ("forward", "float32", 16388, False),
    ("forward", "bfloat16", 446, False),
    ("forward", "bfloat16", 448, True),
    ("forward", "float16", 4096, True),
    ("forward", "float16", 4098, True),
    ("forward", "float16", 6656, True),
    ("forward", "float16", 6720, False),
    ("forward", "bfloat16", 6722, True),
    ("forward", "bfloat16", 12290, False),
    ("backward", "float32", 64, True),
    ("backward", "float64", 6144, True),
    ("backward", "float64", 6208, False),
    ("backward", "float32", 1 << 16, False),
    ("backward", "float32", (1 << 16) + 4, True),
    ("backward", "float16", 254, False),
    ("backward", "bfloat16", 256, True),
    ("backward", "float16", 4096, True),
    ("backward", "float16", 4098, False),
]


@pytest.mark.parametrize(("direction", "dtype", "row_bytes", "paged"), PAGED, ids=str)
def test_single_rows_from_memory_are_asked_for_in_pages_where_that_was_faster(
    direction, dtype, row_bytes, paged
):
    """On a Xeon, longer rows where several would be read side by side otherwise; alone if they are ragged."""
    how = row_bytes, np.dtype(dtype_of(dtype)), direction, L2
    pace = numba_pace.choose(*how, few=False, far=False)
    assert (pace.pages == numba_pace.PAGES) == paged
    assert not paged or pace == numba_pace.Pace(1, 64, 0, pages=numba_pace.PAGES)
    for elsewhere in ({"memory": False}, {"few": True}, {"far": True}, {"stream": False, "memory": False}):
        assert numba_pace.choose(*how, **{"few": False, "far": False} | elsewhere).pages == 1

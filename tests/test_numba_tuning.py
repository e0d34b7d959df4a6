"""The tuning of numba_fused: prefetches of single rows to L2 do not meet the results being written."""

import numpy as np
import pytest

from layernorm_backward.dtypes import dtype_of
from layernorm_backward.kernels import numba_tuning
from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.kernels.numba_ring import DELAY
from layernorm_backward.kernels.processor import Traits

L2 = 1 << 20
FIFTH = Traits(paged_backward=True, short_alone=True)  # a Xeon of that generation
SIXTH = Traits()
IN_PAGE = 4096 // LINE  # lines


def chosen(row_bytes, direction, few, far=True, memory=True):
    return numba_tuning.choose(row_bytes, np.dtype("float32"), direction, L2, Traits(few, far), memory=memory)


def between(row_bytes, ahead):
    """Lines, modulo a page, between a result of one row and the prefetch `ahead` of the next."""
    delay = DELAY if row_bytes % LINE else 0
    gap = (row_bytes // LINE + ahead + delay) % IN_PAGE
    return min(gap, IN_PAGE - gap)


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("few", [False, True])
def test_a_single_row_prefetches_nothing_where_results_are_written(direction, few):
    for row_bytes in range(LINE, 1 << 17, LINE // 4):
        tuning = chosen(row_bytes, direction, few)
        if tuning.group == 1:
            assert between(row_bytes, tuning.ahead) >= numba_tuning.NEAREST, row_bytes


@pytest.mark.parametrize(
    ("row_bytes", "ahead"), [(2048, 112), (2052, 96), (1540, 112), (1024, 96), (4096, 96)]
)
def test_only_rows_that_would_do_so_have_a_longer_prefetch_distance(row_bytes, ahead):
    assert numba_tuning.L2_AHEAD == 96
    assert chosen(row_bytes, "backward", few=False).ahead == ahead


def test_prefetches_to_l1_keep_their_distance():
    assert chosen(2048, "backward", few=False, far=False, memory=False).ahead == numba_tuning.NEXT_PAGE


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize(("few", "far"), [(False, True), (True, False), (True, True)])
def test_only_on_a_xeon_does_the_tuning_depend_on_the_kind_of_store(direction, few, far):
    for row_bytes in (256, 4100, 16384, 1 << 16):
        tuning = chosen(row_bytes, direction, few, far, memory=False)
        how = row_bytes, np.dtype("float32"), direction, L2, Traits(few, far)
        assert numba_tuning.choose(*how, stream=False, memory=False) == tuning


@pytest.mark.parametrize(
    ("traits", "direction", "dtype", "groups"),
    [
        (FIFTH, "backward", "float32", {512: 1, 1024: 2, 4096: 2, 8192: 2, 65536: 2}),
        (SIXTH, "backward", "float32", {64: 2, 1024: 2, 3072: 2, 4096: 2, 32768: 2, 65536: 2}),
        (FIFTH, "backward", "float16", {1024: 1, 2048: 1, 4096: 1, 8192: 2}),
        (SIXTH, "backward", "float16", {1024: 1, 2048: 1, 4096: 1, 8192: 2}),
        (FIFTH, "forward", "float64", {2048: 1, 4096: 1, 8192: 1, 16384: 4}),
        (SIXTH, "forward", "float64", {2048: 1, 4096: 1, 8192: 1, 16384: 4}),
    ],
)
def test_groups_on_a_xeon_where_x_is_cache_resident(traits, direction, dtype, groups):
    """Groups share the sums of a backward pass there; statistics of several rows cost nothing less."""
    for row_bytes, group in groups.items():
        kept = numba_tuning.choose(row_bytes, np.dtype(dtype), direction, L2, traits, stream=False)
        assert kept.group == group, row_bytes


@pytest.mark.parametrize(
    ("traits", "row_bytes", "ahead"), [(SIXTH, 64, 0), (SIXTH, 3072, 0), (SIXTH, 4096, 16), (FIFTH, 2048, 16)]
)
def test_short_pairs_in_the_caches_are_not_prefetched(traits, row_bytes, ahead):
    tuning = numba_tuning.choose(row_bytes, np.dtype("float32"), "backward", L2, traits, stream=False)
    assert (tuning.group, tuning.ahead) == (2, ahead)


@pytest.mark.parametrize("row_bytes", [68, 2052, 4100, 12292])
def test_rows_with_a_remainder_are_prefetched_alike_wherever_x_is(row_bytes):
    how = row_bytes, np.dtype("float32"), "backward", L2, SIXTH
    assert numba_tuning.choose(*how, stream=False) == numba_tuning.choose(*how, memory=False)


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
def test_groups_on_a_xeon_with_2_mb_of_l2(direction, dtype, groups):
    def group(hidden):
        row_bytes = hidden * np.dtype(dtype).itemsize
        how = np.dtype(dtype), direction, 2 << 20, FIFTH
        return numba_tuning.choose(row_bytes, *how, memory=False).group

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
def test_prefetches_of_single_rows_from_memory_are_interleaved_where_that_was_faster(
    direction, dtype, row_bytes, paged
):
    """On a Xeon, longer rows where several would be read side by side otherwise; alone if they are ragged."""
    how = row_bytes, np.dtype(dtype_of(dtype)), direction, L2
    tuning = numba_tuning.choose(*how, FIFTH)
    assert (tuning.pages == numba_tuning.PAGES) == paged
    assert not paged or tuning == numba_tuning.Tuning(1, 64, 0, pages=numba_tuning.PAGES)
    for traits in (Traits(few_registers=True), Traits(prefetch_to_l2=True)):
        assert numba_tuning.choose(*how, traits).pages == 1
    for elsewhere in ({"memory": False}, {"stream": False, "memory": False}):
        assert numba_tuning.choose(*how, FIFTH, **elsewhere).pages == 1


def test_forward_the_sixth_generation_interleaves_as_the_fifth():
    for direction, dtype, row_bytes, _ in PAGED:
        how = row_bytes, np.dtype(dtype_of(dtype)), direction, L2
        assert direction == "backward" or numba_tuning.choose(*how, SIXTH) == numba_tuning.choose(*how, FIFTH)


@pytest.mark.parametrize(
    ("dtype", "row_bytes", "group", "pages"),
    [
        ("float32", 64, 1, 1),
        ("float32", 4096, 1, 1),
        ("float64", 6144, 1, 1),
        ("float64", 6208, 2, 1),
        ("float32", 4100, 1, 1),
        ("float32", 8196, 1, numba_tuning.PAGES),
        ("float16", 2048, 1, 1),
        ("float16", 6144, 2, 1),
        ("bfloat16", 6146, 1, numba_tuning.PAGES),
        ("float32", 32768, 2, 1),
        ("float64", 32832, 1, numba_tuning.PAGES),
        ("float32", L2 // 16, 1, numba_tuning.PAGES),
        ("float32", L2 // 16 + 64, 1, 1),
        ("float32", L2 // 4, 4, 1),
        ("float16", L2 // 16, 2, 1),
        ("bfloat16", L2 // 16 + 64, 2, 1),
        ("bfloat16", L2 // 8, 4, 1),
    ],
)
def test_backward_the_sixth_generation_interleaves_long_rows_alone(dtype, row_bytes, group, pages):
    tuning = numba_tuning.choose(row_bytes, np.dtype(dtype_of(dtype)), "backward", L2, SIXTH)
    assert (tuning.group, tuning.pages) == (group, pages)
    assert pages > 1 or group > 1 or tuning.ahead == numba_tuning.NEXT_PAGE

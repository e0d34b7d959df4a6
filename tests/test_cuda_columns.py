"""The sum of partial sums on the host emulation: every row and column once, in a fixed order."""

from typing import get_args

import numpy as np
import pytest

from emulated import needs_compiler
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.gpu import program_cache, variants
from layernorm_backward.kernels.cuda import columns
from layernorm_backward.kernels.cuda.emulation import SMALL, Emulation, Order
from layernorm_backward.kernels.cuda_fused import WIDE_COLUMNS, WIDE_THREADS

pytestmark = needs_compiler

BATCH = 16  # rows of partial sums that a thread asks for at once, AHEAD in columns.cuh
SHORT, LONG = 37, columns.LONG + 37  # columns: of the two ways to share them among threads
AROUND = {  # rows about the ends of batches, for one thread of a column and for DOWN of them
    SHORT: (0, 1, 15, 16, 17, 255, 256, 257, 700),
    LONG: (0, 1, BATCH - 1, BATCH, BATCH + 1, 3 * BATCH + 5),
}


def test_rows_too_long_for_32_bit_column_numbers_are_refused():
    assert columns.LONGEST + WIDE_THREADS * WIDE_COLUMNS == 2**31  # so hidden + 2048 - 1 has 32 bits
    assert columns.sizes(1, columns.LONGEST) == (1, 2**31 - 2048)
    with pytest.raises(ValueError, match="D is 2147481601; allowed: at most 2147481600"):
        columns.sizes(1, columns.LONGEST + 1)


def added(partials, dtype, order="forward"):
    sums = [np.full(partials.shape[2], np.nan, dtype) for _ in range(2)]
    columns.add_partials(Emulation(order=order), partials, *sums)
    return sums


@pytest.mark.parametrize(
    ("hidden", "parts"), [(hidden, parts) for hidden in AROUND for parts in AROUND[hidden]]
)
def test_every_partial_sum_of_every_column_is_added_once(hidden, parts):
    """Sums of integers are exact, so that a row that is skipped or added twice is detected."""
    rows, column = np.arange(1, parts + 1)[:, None, None], np.arange(2 * hidden).reshape(1, 2, hidden)
    partials = (rows * 8 + column % 7).astype(np.float32)
    assert partials.sum(axis=0, dtype=np.float64).max(initial=0) < 2**24
    for found, expected in zip(added(partials, np.float32), partials.sum(axis=0), strict=True):
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("hidden", AROUND)
def test_the_order_of_the_sum_does_not_depend_on_that_of_the_threads(hidden):
    partials = np.random.default_rng(1).normal(size=(40, 2, hidden)).astype(np.float32)
    first, *others = (np.concatenate(added(partials, np.float32, order)) for order in get_args(Order))
    assert len(others) == 2
    assert all(np.array_equal(first, other) for other in others)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_the_sums_are_rounded_once_to_the_dtype_of_gamma(dtype):
    wide = np.float64 if dtype == "float64" else np.float32
    partials = np.random.default_rng(2).integers(-500, 500, (300, 2, SHORT)).astype(wide)
    for found, expected in zip(added(partials, dtype_of(dtype)), partials.sum(axis=0), strict=True):
        assert np.array_equal(found, expected.astype(found.dtype))


class Asked(Emulation):
    """Records the parameters of a launch."""

    def launch(self, program, how, arguments):
        self.how = how
        super().launch(program, how, arguments)


@pytest.mark.parametrize("hopper", [True, False])
def test_the_sum_launches_early_where_the_device_supports_it(hopper):
    machine = Asked(hardware=SMALL._replace(hopper=hopper))
    sums = [np.full(SHORT, np.nan, np.float32) for _ in range(2)]
    columns.add_partials(machine, np.ones((3, 2, SHORT), np.float32), *sums)
    assert machine.how.early == hopper
    assert all((one == 3).all() for one in sums)


class Early(program_cache.Recorder):
    """Records only launches that may begin before the previous one has ended."""

    def launch(self, program, how, arguments):
        if how.early:
            super().launch(program, how, arguments)


@pytest.mark.parametrize("name", ["cuda_fused", "cuda_separate"])
def test_only_the_sum_launches_early(name):
    """No other kernel waits for the previous launch; `test_the_other_kernels` checks that this one does."""
    recorder = Early(SMALL)
    for hidden in (4, 1000, 40_000, 400_000):
        program_cache.run(variants.passes(name, recorder), "float32", "float32", hidden)
    assert {program.kernel for program in recorder.programs} == {"add_partials"}

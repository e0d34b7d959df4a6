"""The loops between a stream and numba_fused: each makes the accesses that its name promises."""

from itertools import product

import numpy as np
import pytest
from numba import get_num_threads, set_num_threads

from layernorm_backward.aligned import aligned_empty
from layernorm_backward.dtypes import dtype_of, sum_dtype
from layernorm_backward.kernels.lanes import LINE
from layernorm_backward.kernels.numba_plan import Plan
from layernorm_backward.kernels.numba_walk import GROUPS, LEAD
from layernorm_backward.roofs import row_loops, row_streams
from layernorm_backward.roofs.row_streams import SCALE, STEPS

CASES = [
    ("float32", Plan(1, 96, True, 1)),
    ("float32", Plan(1, 64, True, 1, pages=8)),
    ("bfloat16", Plan(4, 16, False, 1)),
]
SHAPE = 268, 160


class Rows:
    """x, dy, out (N, D), gamma, beta (D,), and all but `out` in the dtype of the sums."""

    def __init__(self, dtype, shape=SHAPE):
        rng, kind = np.random.default_rng(3), dtype_of(dtype)
        self.x, self.dy, self.out = (aligned_empty(shape, kind) for _ in range(3))
        self.gamma, self.beta = (rng.integers(-4, 5, shape[1]).astype(kind) for _ in range(2))
        self.x[...], self.dy[...] = (rng.integers(-8, 9, shape) for _ in range(2))
        self.out.fill(np.nan)
        given = self.x, self.dy, self.gamma, self.beta
        self.wide = [array.astype(sum_dtype(kind)) for array in given]


def forward(step, rows, plan):
    return row_streams.forward(step, rows.x, rows.gamma, rows.beta, rows.out, plan)()


def backward(step, rows, plan):
    return row_streams.backward(step, rows.dy, rows.x, rows.gamma, rows.out, plan)()


def again(plan, *summed):
    """The sums over the rows that one thread reads twice, in its one piece: all but the first group of
    rows, and the last group twice."""
    return sum(array[plan.group :].sum() + array[-plan.group :].sum() for array in summed)


@pytest.fixture
def one_thread():
    before = get_num_threads()
    set_num_threads(1)
    yield
    set_num_threads(before)


@pytest.mark.parametrize(("dtype", "plan"), CASES)
@pytest.mark.parametrize("step", STEPS["forward"])
def test_a_step_forward_writes_y_and_sums_up_what_it_reads_again(dtype, plan, step, one_thread):
    rows = Rows(dtype)
    x, _, gamma, beta = rows.wide
    seen = forward(step, rows, plan)
    wanted = gamma * x + beta if step == "gamma" else SCALE * x
    assert np.array_equal(rows.out, wanted.astype(rows.out.dtype))
    assert seen.sum() == (0 if step == "by_row" else again(plan, x))


@pytest.mark.parametrize(("dtype", "plan"), CASES)
@pytest.mark.parametrize("step", STEPS["backward"])
def test_a_step_backward_writes_dx_and_sums_up_what_it_reads_again(dtype, plan, step, one_thread):
    rows = Rows(dtype)
    x, dy, gamma, _ = rows.wide
    seen, dgamma, dbeta = backward(step, rows, plan)
    factor = gamma if step in ("gamma", "partial_sums") else SCALE
    assert np.array_equal(rows.out, (x + factor * dy).astype(rows.out.dtype))
    assert seen.sum() == (0 if step == "by_row" else again(plan, x, factor * dy))
    summed = step == "partial_sums"
    assert np.array_equal(dgamma, summed * x.sum(0)) and np.array_equal(dbeta, summed * dy.sum(0))


KEPT_APART = [("backward", "float32", 2), ("forward", "float32", 4), ("forward", "bfloat16", 2)]


@pytest.mark.parametrize(("direction", "dtype", "group"), KEPT_APART)
@pytest.mark.parametrize("hidden", [1024, 1056])
def test_staggered_groups_read_and_write_each_line_as_often(direction, dtype, group, hidden, one_thread):
    """Of the group behind the next its first LEAD lines, in place of those of the next."""
    rows, plan = Rows(dtype, (24, hidden)), Plan(group, 96, True, 1, spread=16, lag=True)
    x, dy, gamma, beta = rows.wide
    lead = LEAD * LINE // rows.x.itemsize
    begins = range(0, 24, group)
    later = [i + 2 * group if i + 2 * group < 24 else i for i in begins]
    behind = [i + group if i + group < 24 else i for i in begins]

    def read(array):
        return sum(array[i : i + group, lead:].sum() for i in behind) + sum(
            array[i : i + group, :lead].sum() for i in later
        )

    if direction == "forward":
        seen, wanted = forward("gamma", rows, plan), gamma * x + beta
        assert seen.sum() == read(x)
    else:
        (seen, dgamma, dbeta), wanted = backward("partial_sums", rows, plan), x + gamma * dy
        assert seen.sum() == read(x) + read(gamma * dy)
        assert np.array_equal(dgamma, x.sum(0)) and np.array_equal(dbeta, dy.sum(0))
    assert np.array_equal(rows.out, wanted.astype(rows.out.dtype))


def test_the_results_do_not_depend_on_the_threads():
    dtype, plan = CASES[0]
    rows = Rows(dtype)
    _, dgamma, dbeta = backward("partial_sums", rows, plan)
    x, dy, gamma, _ = rows.wide
    assert np.array_equal(rows.out, x + gamma * dy)
    assert np.array_equal(dgamma, x.sum(0)) and np.array_equal(dbeta, dy.sum(0))


@pytest.mark.parametrize(
    ("step", "shape", "said"),
    [
        ("partial_sums", (8, 16), "unknown step 'partial_sums' forward; allowed: by_row, read_twice, gamma"),
        ("gamma", (8, 17), r"arrays have shape \(8, 17\); allowed: rows of whole lines of 64 bytes"),
        ("gamma", (6, 16), "in whole groups of 4"),
        ("gamma", (0, 16), r"arrays have shape \(0, 16\)"),
    ],
)
def test_a_step_refuses_what_it_cannot_take(step, shape, said):
    x, vector = np.zeros(shape, np.float32), np.zeros(shape[1], np.float32)
    with pytest.raises(ValueError, match=said):
        row_streams.forward(step, x, vector, vector, x.copy(), Plan(4, 16, False, 1))


@pytest.mark.parametrize("direction", STEPS)
def test_loops_compiled_side_by_side_have_names_of_their_own(direction):
    """By which Numba's cache keeps an index for each."""
    ways = list(product(GROUPS, (False, True), (False, True)))
    names = {row_loops.compiled(direction, *way).py_func.__qualname__ for way in ways}
    assert len(names) == len(ways) and all(name.startswith(f"{direction}_") for name in names)

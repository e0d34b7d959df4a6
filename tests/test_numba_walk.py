"""Prefetches of numba_fused: lines that are read so many columns later, different modulo a page."""

from itertools import product
from types import FunctionType

import numpy as np
import pytest
from numba import njit

from layernorm_backward import stopwatch
from layernorm_backward.aligned import aligned_empty
from layernorm_backward.kernels import numba_calls, numba_plan, numba_tuning, numba_walk, processor
from layernorm_backward.kernels.lanes import zeros
from layernorm_backward.kernels.processor import Traits
from layernorm_backward.traffic.arrays import Tally
from layernorm_backward.traffic.lanes import counting


@njit
def _asked(hidden, ahead, like):
    return numba_walk.prefetch_schedule(hidden, ahead, like)


def prefetched_elements(which, then, j, hidden, schedule, rows, streamed=True, few=False):
    """The elements at which the source of `prefetch_rows` prefetches a line of each row."""
    found = []
    around = {
        "height": lambda like: like,
        "prefetch_line": lambda x, start, like: found.append(start),
        "FEW_REGISTERS": few,
    }
    run = FunctionType(numba_walk.prefetch_rows.py_func.__code__, vars(numba_walk) | around)
    run(None, which, then, j, hidden, schedule, streamed, rows)
    return found


@pytest.mark.parametrize("rows", [1, 2, 4])
@pytest.mark.parametrize(("hidden", "ahead"), [(5, 1), (5, 4), (5, 5), (5, 23), (1024, 0), (1024, 256)])
def test_a_prefetched_element_is_read_at_the_prefetch_distance(rows, hidden, ahead):
    asked_by = njit(lambda x: numba_walk.prefetch_schedule(hidden, (ahead, 32 * 16, 1), zeros(x, rows)))
    schedule, first = asked_by(np.ones(1, np.float32)), 3
    for column, which in product(range(hidden), range(2)):
        found = prefetched_elements(which, first * rows * hidden, column, hidden, schedule, rows)
        for row, start in enumerate(found):
            lead = row * schedule[3][0] + which * schedule[3][1]
            groups, later = divmod(column + ahead + lead, hidden)
            assert start == ((first + groups) * rows + row) * hidden + later
        assert len(found) == rows


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("streamed", [False, True])
def test_cache_resident_lines_are_not_prefetched_where_registers_are_few(few, streamed):
    interleave = numba_walk.page_interleave.py_func(256, 1, 16)
    found = prefetched_elements(0, 0, 5, 64, (256, 48, 0, (0, 0), interleave), 1, streamed, few)
    assert found == ([] if few and not streamed else [261])


@pytest.mark.parametrize(("page", "pages"), [(64, 8), (64, 4), (64, 64), (32, 2), (16, 1)])
@pytest.mark.parametrize("hidden", [16, 48, 64 * 16, 17, 1023])
def test_interleaved_pages_prefetch_each_line_once_and_a_page_or_more_ahead(page, pages, hidden):
    """Rows of float32, some of which begin within a line: one line is prefetched for each that is read."""
    schedule = njit(lambda x: numba_walk.prefetch_schedule(hidden, (page * 16, 0, pages), zeros(x, 1)))(
        np.ones(1, np.float32)
    )
    rows = -(-4 * page * pages * 16 // hidden)
    asked, read = [], []
    for row, j in product(range(rows), range(0, hidden, 16)):
        (start,) = prefetched_elements(0, row * hidden, j, hidden, schedule, 1)
        asked.append(start // 16)
        read.append((row * hidden + j) // 16)
    first_asked = {line: step for step, line in reversed(list(enumerate(asked)))}
    first_read = {line: step for step, line in reversed(list(enumerate(read)))}
    begun = page * pages  # lines of the pages that no page before has asked for in full
    for line, step in first_read.items():
        if line >= begun:
            assert line - read[first_asked[line]] >= page and first_asked[line] < step
    if hidden % 16 == 0:
        assert len(set(asked)) == len(asked)
    at_once = {line // page for line in asked[2 * begun : 2 * begun + pages]}
    assert hidden % 16 or len(at_once) == pages


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_simultaneous_prefetches_differ_modulo_a_page(rows):
    distance = 16 * 16, 16 * numba_tuning.SPREAD, 1
    leads = njit(lambda x: numba_walk.prefetch_schedule(4096, distance, zeros(x, rows))[3])(
        np.ones(1, np.float32)
    )
    places = {row * leads[0] + which * leads[1] for row in range(rows) for which in range(2)}
    assert len({4 * place % 4096 for place in places}) == 2 * rows


@pytest.mark.parametrize(
    ("few", "far", "spread"),
    [
        (False, False, numba_tuning.SPREAD),
        (False, True, numba_tuning.L2_SPREAD),
        (True, False, numba_tuning.SPREAD),
        (True, True, 0),
    ],
)
def test_the_compiled_pass_spreads_prefetches_as_planned(few, far, spread, monkeypatch):
    """Lines of later rows are prefetched so many columns before those of the first row and array."""
    monkeypatch.setattr(processor, "traits", lambda: Traits(few, far))
    plan = numba_plan.choose(10**5, 4096, np.dtype("float32"))
    assert plan.spread == spread
    call = numba_calls.call("backward", (64, 4096), *[np.dtype("float32")] * 2, 1, 0, plan)
    assert tuple(call.numbers[1:5]) == (4096, plan.ahead * 16, plan.spread * 16, plan.pages)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_the_compiled_pass_has_the_pages_of_its_plan(direction):
    plan = numba_plan.Plan(group=1, ahead=64, stream=True, chunks=1, pages=8)
    call = numba_calls.call(direction, (64, 1024), *[np.dtype("float32")] * 2, 1, 0, plan)
    assert tuple(call.numbers[1:5]) == (1024, 64 * 16, 0, 8)


class _Asked(Tally):
    """The addresses of prefetched elements."""

    def __init__(self):
        super().__init__()
        self.places = set()

    def fetched(self, addresses):
        self.places.update(addresses)


@pytest.mark.parametrize(("direction", "group"), [("backward", 1), ("forward", 1), ("forward", 2)])
@pytest.mark.parametrize(("few", "stream"), [(False, False), (False, True), (True, True), (True, False)])
@pytest.mark.parametrize("hidden", [7, 16, 17, 31, 33])
def test_every_element_is_prefetched_up_to_the_last_of_a_row(
    direction, group, few, stream, hidden, monkeypatch
):
    """None where registers are few and lines are cache-resident."""
    monkeypatch.setattr(processor, "traits", lambda: Traits(few_registers=few))
    rows, ahead = 8, 1
    x, dy, out = (aligned_empty((rows, hidden), np.float32) for _ in range(3))
    x[...], dy[...] = np.random.default_rng(1).normal(size=(2, rows, hidden))
    gamma, tally = np.ones(hidden, np.float32), _Asked()
    with stopwatch.threads(1), counting(tally, (x, dy, out)) as kernel:
        plan = kernel.Plan(group, ahead, stream, 1)
        _, saved = kernel.forward(x, gamma, gamma, 1e-5, out=out, plan=plan)
        if direction == "backward":
            tally.places.clear()
            kernel.backward(dy, saved, out=(out, gamma.copy(), gamma.copy()), plan=plan)
    later = (2 * group) * hidden + ahead * 16  # what is asked for begins with the second group
    for array in (x, dy)[: 2 if direction == "backward" else 1]:
        places = range(array.ctypes.data + 4 * later, array.ctypes.data + array.nbytes, 4)
        assert places and tally.places.issuperset(places if stream or not few else ())
    assert stream or not few or not tally.places


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_the_pass_interleaves_the_prefetches_of_x_as_planned(direction):
    """Four pages of four lines: after the first row, each line of the next row prefetches one in turn."""
    rows, hidden = 6, 64
    x, dy, out = (aligned_empty((rows, hidden), np.float32) for _ in range(3))
    x[...], dy[...] = np.random.default_rng(1).normal(size=(2, rows, hidden))
    gamma, tally = np.ones(hidden, np.float32), _Asked()
    with stopwatch.threads(1), counting(tally, (x, dy, out)) as kernel:
        plan = kernel.Plan(1, 4, True, 1, pages=4)
        _, saved = kernel.forward(x, gamma, gamma, 1e-5, out=out, plan=plan)
        if direction == "backward":
            tally.places.clear()
            kernel.backward(dy, saved, out=(out, gamma.copy(), gamma.copy()), plan=plan)
    interleave = numba_walk.page_interleave.py_func(4 * 16, 4, 16)
    read = range(hidden, rows * hidden, 16)
    wanted = {numba_walk.interleaved.py_func(at, interleave) // 16 for at in read}
    for array in (x, dy)[: 2 if direction == "backward" else 1]:
        lines = {(place - array.ctypes.data) // 64 for place in tally.places}
        assert {it for it in lines if 0 <= it < array.size // 16} == {
            it for it in wanted if it < array.size // 16
        }

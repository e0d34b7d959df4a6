"""Ranges of threads in pieces: every unit once, each thread's own first, large pieces before small ones."""

import numpy as np
import pytest
from numba import njit, prange

from layernorm_backward import stopwatch
from layernorm_backward.kernels import numba_calls, numba_fused, numba_plan
from layernorm_backward.kernels.numba_sharing import SHARE, next_piece, pieces, untaken


def taken(ends, counters, task):
    """All pieces that a task gets, if it is the only one."""
    found = []
    while True:
        start, end = next_piece(ends, counters, task)
        if start == end:
            return found
        found.append((int(start), int(end)))


@pytest.mark.parametrize("units", [3, 7, 64, 1000])
@pytest.mark.parametrize("tasks", [2, 3])
def test_ranges_are_equal_and_their_pieces_shrink_to_a_unit(units, tasks):
    ends = pieces(units, tasks)
    assert ends[:, 0].tolist() == [task * units // tasks for task in range(tasks)]
    assert ends[:, -1].tolist() == [*ends[1:, 0], units]
    for own in ends:
        sizes = np.diff(np.unique(own))
        assert sizes[0] == max(1, (own[-1] - own[0]) // SHARE)
        assert sizes[-1] == 1 and (np.diff(sizes) <= 0).all()


@pytest.mark.parametrize("units", [0, 1, 64])
def test_one_task_takes_all_at_once(units):
    assert pieces(units, 1).tolist() == [[0, units] if units else [0]]
    assert taken(pieces(units, 1), untaken(1), 0) == ([(0, units)] if units else [])


def test_a_whole_range_is_taken_at_once():
    assert pieces(7, 2, True).tolist() == [[0, 3], [3, 7]]
    assert taken(pieces(7, 2, True), untaken(2), 1) == [(3, 7), (0, 3)]


def test_a_task_takes_its_own_range_first_and_then_those_behind_it():
    found = taken(pieces(12, 3), untaken(3), 1)
    assert found[:3] == [(4, 6), (6, 7), (7, 8)]
    assert [start for start, _ in found[3:]] == [8, 10, 11, 0, 2, 3]


def test_a_task_that_comes_late_finds_what_others_have_left():
    ends, counters = pieces(8, 2), untaken(2)
    first = next_piece(ends, counters, 0)
    assert taken(ends, counters, 1) == [(4, 6), (6, 7), (7, 8), (2, 3), (3, 4)]
    assert first == (0, 2)
    assert next_piece(ends, counters, 0) == (0, 0)


def test_ranges_of_different_length_have_no_empty_piece():
    ends = pieces(5, 3)
    found = [piece for task in range(3) for piece in taken(ends, untaken(3), task)]
    assert all(start < end for start, end in found)
    assert sorted(taken(ends, untaken(3), 2)) == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]


def test_more_tasks_than_units_share_them():
    assert taken(pieces(2, 4), untaken(4), 0) == [(0, 1), (1, 2)]


@pytest.mark.parametrize(("units", "tasks"), [(1, 2), (64, 2), (100_003, 2)])
def test_threads_together_take_every_unit_once(units, tasks):
    @njit(parallel=True)
    def count(ends, seen):
        counters = untaken(len(ends))
        for task in prange(len(ends)):
            span = next_piece(ends, counters, task)
            while span[0] < span[1]:
                for unit in range(span[0], span[1]):
                    seen[unit] += 1
                span = next_piece(ends, counters, task)

    seen = np.zeros(units, np.intp)
    count(pieces(units, tasks), seen)
    assert np.array_equal(seen, np.ones(units))


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("stream", [False, True])
def test_ranges_are_whole_where_results_stay_in_the_caches(direction, stream):
    """A few lines that the other core has written cost more there than waiting for each other."""
    dtype = np.dtype("float32")
    plan = numba_plan.choose(10_000, 256, dtype, direction, 2)
    call = numba_calls.call(direction, (10_000, 256), dtype, dtype, 2, 0 if stream else None, plan)
    assert len(call.pieces) == 2
    assert (call.pieces.shape[1] == 2) is not stream


def test_a_call_with_little_to_do_has_a_single_task_whatever_threads_are_set(problem, monkeypatch):
    calls, whole = [], numba_calls.cached_call
    monkeypatch.setattr(numba_fused, "cached_call", lambda *kind: calls.append(whole(*kind)) or calls[-1])
    with stopwatch.threads(2):
        for rows in (8, 800):
            x, gamma, beta, dy = problem((rows, 768), "float32")
            numba_fused.backward(dy, numba_fused.forward(x, gamma, beta, 1e-5)[1])
    assert [len(call.pieces) for call in calls] == [1, 1, 2, 2]

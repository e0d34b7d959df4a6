"""The memory that arrays may take: of the machine or of its container, for all arrays that are allocated."""

import subprocess
import sys
from math import inf, prod

import psutil
import pytest

from layernorm_backward import machine
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.experiments import _cells, spells, timing_cpu
from layernorm_backward.experiments._sets import cells
from layernorm_backward.host import cgroup
from layernorm_backward.timing import sizing, timed
from layernorm_backward.timing.pool import ALL_ARRAYS, Pool
from test_spells import ARGUMENTS as SPELLS
from test_timing_cpu import ARGUMENTS as TIMING
from test_timing_cpu import PUBLISHED


@pytest.mark.parametrize(("left", "limit"), [(inf, 300), (1000, 300), (600, 200), (0, 0)])
def test_the_limit_is_a_third_of_what_machine_and_container_leave(monkeypatch, left, limit):
    memory = psutil.virtual_memory()._replace(available=900)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    monkeypatch.setattr(cgroup, "available", lambda: left)
    assert sizing.memory_limit() == limit


@pytest.mark.skipif(sys.platform != "linux", reason="this system does not hold a process to such a limit")
def test_a_limit_on_the_addresses_of_a_process_counts_with_what_is_in_use():
    code = """
import resource, psutil
from layernorm_backward.timing import memory
used = psutil.Process().memory_info().vms
resource.setrlimit(resource.RLIMIT_AS, (used + 50_000_000, resource.RLIM_INFINITY))
print(0 < memory.available() <= 50_000_000)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


@pytest.mark.parametrize("direction", sizing.ARRAYS)
@pytest.mark.parametrize("limit", [4 * 40, 4 * 40 + 39, 4000, 1 << 20])
def test_all_arrays_that_are_allocated_stay_within_the_limit(monkeypatch, direction, limit):
    monkeypatch.setattr(machine, "last_level_cache_bytes", lambda: 3000)
    rows, note = sizing.sized(10, "float32", direction, "beyond_cache", limit, ALL_ARRAYS)
    assert sizing.held(ALL_ARRAYS, rows, 10, "float32") <= limit
    unlimited = sizing.sized(10, "float32", direction, "beyond_cache", 1 << 30)
    assert (note == "") == (rows == unlimited.rows)


def test_a_working_set_beyond_the_cache_is_no_smaller_and_one_within_no_larger(monkeypatch):
    monkeypatch.setattr(machine, "last_level_cache_bytes", lambda: 3001)
    monkeypatch.setattr(machine, "cache_bytes", lambda: {})
    beyond, within = (
        sizing.touched("forward", sizing.sized(10, "float32", "forward", name, 1 << 30).rows, 10, "float32")
        for name in ("beyond_cache", "in_cache")
    )
    assert (beyond, within) == (12080, 720)  # whole rows of 80 bytes, by limits of 12004 and 750


@pytest.mark.parametrize(("l2", "size"), [(0, 400), (25, 200), (100, 400), (500, 400)])
def test_what_stays_in_the_last_cache_is_between_all_of_l2_and_a_quarter_of_it(monkeypatch, l2, size):
    monkeypatch.setattr(machine, "last_level_cache_bytes", lambda: 1600)
    monkeypatch.setattr(machine, "cache_bytes", lambda: {"l2": l2} if l2 else {})
    monkeypatch.setattr(machine, "usable_cores", lambda: 4)
    assert sizing.in_cache() == size


def test_fewer_rows_than_were_wanted_are_reported_with_the_bytes_that_a_pass_then_touches():
    rows, note = sizing.sized(10, "float32", "forward", 4000, 1600, ALL_ARRAYS)
    assert (rows, note) == (10, "4000 bytes were wanted; a third of the available memory holds 800")


def test_a_row_whose_arrays_do_not_fit_is_refused():
    with pytest.raises(ValueError, match="a row of 10 takes 160 bytes; allowed: 159, a third of the memory"):
        sizing.sized(10, "float32", "forward", 80, 159, ALL_ARRAYS)


def of_working_set(direction):
    sizes = {"hidden": [64], "working_set": 1 << 20}
    return PUBLISHED | {"kernels": ["compact"], "directions": [direction], "sizes": sizes}


@pytest.mark.parametrize("direction", ["forward", "backward", "both"])
def test_the_pool_of_a_timing_takes_no_more_than_the_limit(direction):
    limit = 1 << 20
    (cell,) = cells({"one": of_working_set(direction)}, limit)
    each = prod(cell.shape) * dtype_of(cell.dtype).itemsize
    memory = Pool(each, 1)._memory
    assert sum(array.nbytes for array in memory) <= limit
    assert len(memory) == ALL_ARRAYS


def test_an_explicit_shape_over_the_limit_is_refused_before_anything_is_allocated(monkeypatch):
    monkeypatch.setattr(sizing, "memory_limit", lambda: 10**6)
    monkeypatch.setattr(timing_cpu, "Pool", lambda *_: pytest.fail("memory was taken"))
    sets = {"huge": PUBLISHED | {"sizes": [(1, 1, 8), (1, 200000, 1024)]}}
    taken = 4 * 200000 * 1024 * 8
    said = rf"sets: huge: sizes: .*\[1, 200000, 1024\] in float64 take {taken} bytes; allowed here: 1000000"
    with pytest.raises(ValueError, match=said):
        timing_cpu.run(**TIMING | {"sets": sets})


def test_an_explicit_shape_at_the_limit_is_taken():
    one = {"one": PUBLISHED | {"sizes": [(2, 3, 32)], "directions": ["forward"], "threads": [1]}}
    limit = 4 * 6 * 32 * 8
    assert len(cells(one, limit)) == 1
    with pytest.raises(ValueError, match="sets: one: sizes"):
        cells(one, limit - 1)


def test_the_arrays_of_sweeps_and_spells_stay_within_the_limit(monkeypatch):
    limit, seen = 3 * 64 * 4 * 7, []
    monkeypatch.setattr(sizing, "memory_limit", lambda: limit)
    cell = _cells.Cell(1 << 20, "float32", 64, "forward", 1)
    assert _cells.sized(cell).rows == 7

    def taken(size, *_):
        seen.append(size)
        raise KeyboardInterrupt

    monkeypatch.setattr(_cells, "Pool", taken)
    wide = {"working_set": 1 << 20, "directions": ["forward"], "dtypes": ["float32"], "hidden": [64]}
    with pytest.raises(KeyboardInterrupt):
        spells.run(**SPELLS | wide)
    assert seen == [limit // 3]


def test_thread_counts_are_each_taken_once_in_order_and_none_is_below_one():
    assert timed.thread_counts(["all", 1, 1]) == sorted({1, timed.most_threads()})
    with pytest.raises(ValueError, match=r"threads is \[0\]; allowed: whole numbers from 1, or all"):
        timed.thread_counts([0])

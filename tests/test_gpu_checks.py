"""What the checks on a GPU cover in the studies: every map, ring and cluster of the table."""

import pytest

from gpus import H200
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.experiments import _result_checks, checks_gpu
from layernorm_backward.kernels.cuda import plan
from layernorm_backward.paper.predicates.gpu import RESULTS
from layernorm_backward.storage import yamlfile
from workspace import ROOT


@pytest.fixture(scope="module", params=["paper", "full"])
def values(request):
    """The config of checks_gpu in a study."""
    return yamlfile.load(ROOT / f"config/{request.param}/checks_gpu.yaml")


def test_a_sanitizer_sees_each_ring_filled_again(values):
    maps = set()
    for dtype, rows, hidden in values["sanitized"]:
        size = dtype_of(dtype).itemsize
        for direction in ("forward", "backward"):
            how = plan.choose(direction, rows, hidden, size, plan.lie(hidden, size, 0), H200)
            assert not how.map.ring or rows >= (how.stages + 2) * how.partials * how.map.teams
            maps.add(how.map)
    assert {one.ring for one in maps if one.lie == plan.RAGGED} == {True, False}
    assert {one.cluster > 1 for one in maps if one.ring} == {True, False}
    assert {one.cluster for one in maps} >= {1, 2, 8}
    assert any(one.cluster > 1 for one in maps if one.lie == plan.RAGGED)
    assert len({one.lie for one in maps}) > 1


def chosen(itemsize, sizes):
    """The maps of both passes for rows of these lengths, and whether they take them as ragged rows."""
    plans = {
        direction: [
            plan.choose(direction, 257, hidden, itemsize, plan.lie(hidden, itemsize, 0), H200)
            for hidden in sizes
        ]
        for direction in plan.MAPS
    }
    return {
        (direction, how.map._replace(lie=plan.ALIKE), how.map.lie == plan.RAGGED)
        for direction, found in plans.items()
        for how in filter(None, found)
    }


@pytest.mark.parametrize("itemsize", [2, 4, 8])
def test_results_are_checked_of_every_map_of_the_table_on_aligned_and_on_ragged_rows(values, itemsize):
    """Where one map follows on another, as few chunks as it takes and as many: so all that can be chosen."""
    lanes = plan.CHUNK // itemsize
    chunks = {one.most + more for maps in plan.MAPS.values() for one in maps[itemsize] for more in (0, 1)}
    sizes = {many * lanes + more for many in (0, 1, *chunks) for more in (0, 1)}
    reached = chosen(itemsize, sorted(sizes - {0}))
    assert {one for _, one, _ in reached} == {one for maps in plan.MAPS.values() for one in maps[itemsize]}
    assert reached <= chosen(itemsize, values["hidden"])


def test_each_tool_looks_at_a_ragged_ring_before_any_looks_at_more(values):
    first, *_ = late = [cell for cell in checks_gpu.cells(**values) if checks_gpu.late(cell)]
    assert [cell.check for cell in late[:4]] == ["racecheck", "synccheck", "memcheck", "initcheck"]
    assert {cell._replace(check="") for cell in late[:4]} == {first._replace(check="")}
    how = plan.choose("backward", first.rows, first.hidden, dtype_of(first.dtype).itemsize, plan.RAGGED, H200)
    assert how.map.ring


def test_rows_that_are_summed_again_are_checked_with_all_rings_and_clusters(values):
    cells = [cell for cell in checks_gpu.cells(**values) if cell.check == "far"]
    assert {cell.dtype for cell in cells} == set(values["dtypes"])
    maps = set()
    for cell in cells:
        size = dtype_of(cell.dtype).itemsize
        lie = plan.lie(cell.hidden, size, 0)
        maps.add(plan.choose("forward", cell.rows, cell.hidden, size, lie, H200).map)
    assert {one.cluster for one in maps if one.ring} >= {1, 2, 4, 8}
    assert {one.lie for one in maps if one.cluster > 1} >= {plan.RAGGED}


@pytest.mark.parametrize("direction", plan.MAPS)
def test_arrays_of_different_alignment_are_checked_in_registers_rings_and_clusters(values, direction):
    cells = [cell for cell in checks_gpu.cells(**values) if cell.check == "apart"]
    assert {cell.dtype for cell in cells} == set(values["dtypes"])
    for dtype in values["dtypes"]:
        size = dtype_of(dtype).itemsize
        its = [cell for cell in cells if cell.dtype == dtype]
        plans = [plan.choose(direction, cell.rows, cell.hidden, size, plan.APART, H200) for cell in its]
        maps = [how.map for how in plans if how]
        assert {(one.ring, one.cluster > 1) for one in maps} == {(False, False), (True, False), (True, True)}
        assert {one.team < 32 for one in maps} == {True, False}
        assert {cell.hidden * size % 16 == 0 for cell in its} == {True, False}


def test_the_paper_counts_every_check_of_results():
    assert tuple(_result_checks.CHECKS) == RESULTS
    claims = {one["id"]: one for one in yamlfile.load(ROOT / "paper/claims.yaml")}
    assert claims["gpu-checks-pass"]["tables"]["checks_gpu"]["check"] == list(RESULTS)
    numbers = yamlfile.load(ROOT / "paper/numbers.yaml")
    for name in ("gpu_checks", "gpu_checks_ran"):
        assert [*numbers[name]["where"]["check"], "repeats"] == list(RESULTS)
    named = ", ".join(f'"{check}"' for check in RESULTS if check != "repeats")
    assert f'selectattr("check", "in", ({named}))' in (ROOT / "paper/paper.md.j2").read_text("utf-8")

"""Candidate mappings of threads to rows that are timed on a GPU, and the table of their times."""

import re

import numpy as np
import pytest
import yaml

from emulated import needs_compiler
from gpu_study import CONFIG
from gpus import H200
from host_board import HostBoard
from layernorm_backward.dtypes import dtype_of
from layernorm_backward.experiments import maps_gpu
from layernorm_backward.figures.maps_gpu import CAPTION, draw
from layernorm_backward.gpu.candidates import Candidate, Space, candidates
from layernorm_backward.gpu.paired import Shape
from layernorm_backward.gpu.rows import Arrays, Pool
from layernorm_backward.kernels.cuda import plan
from layernorm_backward.kernels.cuda.emulation import SMALL, Emulation
from layernorm_backward.kernels.cuda.machine import Program
from layernorm_backward.kernels.cuda.maps import MAPS, Map
from layernorm_backward.kernels.cuda.plan import Rest
from layernorm_backward.records.tabulate import table
from workspace import ROOT

SPACE = Space(
    [64, 256],
    {name: [512] for name in MAPS},
    [1, 2, 4],
    [1, 2],
    [1, 2, 4],
    {name: [(0.2, 4), (1, 1)] for name in MAPS},
    0.7,
)
PROGRAM_S, WAY_S, CELL_S = 0.13, 0.05, 0.2  # on an H200: to compile; to check; to make arrays
STUDIES = ("smoke", "paper", "full")


def config(study):
    return yaml.safe_load((ROOT / f"config/{study}/maps_gpu.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("direction", list(MAPS))
@pytest.mark.parametrize("itemsize", [2, 4, 8])
@pytest.mark.parametrize("hidden", [61, 64, 1000, 1024, 1025, 8192])
def test_every_candidate_holds_the_rows_and_is_filled_by_them(direction, itemsize, hidden):
    found = candidates(direction, hidden, itemsize, SPACE)
    assert len(set(found)) == len({candidate.text for candidate in found}) == len(found) > 0
    needed = plan.chunks(hidden, itemsize)
    for chosen, rest in found:
        assert 0.7 * chosen.most <= needed <= chosen.most
        assert chosen.threads * chosen.blocks <= 512
        assert chosen.team in (1, 2, 4, 8, 16, 32, chosen.threads)
        assert not chosen.ring or (chosen.rows, chosen.teams) == (1, 1)
        assert chosen.cluster == 1 or (chosen.ring and 2 * needed > chosen.threads * 4)
        assert plan.refused(direction, chosen, itemsize) == ""
        own = plan.rest_of(direction, chosen, needed, itemsize)
        assert rest in (own, Rest(0.2, 4)) or (rest == Rest(1, 1) and not chosen.ring)


def test_the_longest_rows_of_16_bits_are_tried_by_twice_the_blocks_with_half_of_them():
    tried = {candidate.map for candidate in candidates("backward", 8192, 2, SPACE)}
    half = Map(256, 2, 2, 256, 2, 1, ring=True)
    whole = half._replace(cluster=1, chunks=4)
    assert {half, whole} <= tried
    assert [plan.fit("backward", one, 9999, 8192, 2, H200).stages for one in (half, whole)] == [3, 3]


@pytest.mark.parametrize(("hidden", "threads", "chunks"), [(1024, 128, 1), (2048, 256, 1), (4096, 256, 2)])
def test_a_block_a_row_in_order_with_as_many_threads_as_there_is_room_for_is_tried(hidden, threads, chunks):
    """As Triton's tutorial does in the forward pass."""
    values = config("full")
    tried = candidates("forward", hidden, 2, maps_gpu._space(values))
    its = (candidate.map for candidate in tried if candidate.rest == Rest(1, 1))
    ordered = {one for one in its if (one.threads, one.chunks) == (threads, chunks)}
    residents = {1: {512, 768, 1024, 1280, 1536, 2048}, 2: {512, 768, 1024, 1280}}[chunks]
    assert {one.blocks * threads for one in ordered if one.teams == one.rows == 1} >= residents


def test_the_candidates_of_the_paper_take_two_to_three_minutes():
    values = config("paper")
    cells = maps_gpu.cells(**values)
    ways_s = WAY_S * sum(map(len, cells.values())) + len(cells) * (values["budget_s"] + CELL_S)
    assert 100 < ways_s + PROGRAM_S * len(maps_gpu.programs(H200, **values)) < 180


def test_more_is_tried_where_a_thread_has_registers_enough_only():
    fewer = SPACE._replace(resident={name: [1024] for name in MAPS})
    for direction, chunks in (("forward", {2}), ("backward", set())):
        assert {one.map.chunks for one in candidates(direction, 4096, 2, fewer)} == chunks
        assert candidates(direction, 8192, 2, fewer) == []
        assert {one.map.chunks for one in candidates(direction, 8192, 2, SPACE)} == {1, 2, 4}


@pytest.mark.parametrize("study", ["paper", "full"])
def test_the_mapping_of_the_table_is_among_the_candidates(study):
    """Else the table of times could not show which map to choose."""
    values = config(study)
    for shape in maps_gpu.cells(**values):
        size = dtype_of(shape.dtype).itemsize
        lie = plan.lie(shape.hidden, size, 0)
        chosen = plan.choose(shape.direction, shape.rows, shape.hidden, size, lie, H200).map
        tried = {candidate.map for candidate in maps_gpu._candidates(shape, maps_gpu._space(values)).values()}
        assert chosen._replace(lie=plan.ALIKE) in tried, (shape, chosen)


def test_a_direction_without_rests_is_refused():
    for key in ("rests", "resident"):
        values = config("smoke") | {key: {"backward": config("smoke")[key]["backward"]}}
        with pytest.raises(ValueError, match=f"{key}: nothing for forward; needed: backward, forward"):
            maps_gpu.cells(**values)


@pytest.mark.parametrize("study", STUDIES)
def test_the_programs_of_all_candidates_are_known_before_timing(study):
    values = config(study)
    found = maps_gpu.programs(H200, **values)
    assert len(set(found)) == len(found)
    assert {one.kernel for one in found} >= {"forward", "backward", "add_partials"}
    laid = {one.template[2] for one in found if one.kernel == "backward"}
    shapes = [shape for shape in maps_gpu.cells(**values) if shape.direction == "backward"]
    space = maps_gpu._space(values)
    teams = {
        candidate.map.team for shape in shapes for candidate in maps_gpu._candidates(shape, space).values()
    }
    assert {int(text.split(", ")[3]) for text in laid} >= teams


def test_without_clusters_and_bulk_copies_rings_have_no_program():
    old = H200._replace(hopper=False)
    found = maps_gpu.programs(old, **config("paper"))
    assert found and not any(is_ring(one) for one in found)


def is_ring(program: Program) -> bool:
    return any(text.startswith("Map<") and text.split(", ")[6] == "1" for text in program.template)


@pytest.fixture(scope="module")
def measured():
    """The rows of each cell on a board without a device."""
    board, values = HostBoard(), CONFIG["maps_gpu"]
    pool = Pool(board, 1)
    return {
        cell: maps_gpu.measure(board, pool, cell, names, time_left=float, **values)[0]
        for cell, names in maps_gpu.cells(**values).items()
    }


@needs_compiler
def test_every_candidate_is_timed_beside_the_mapping_of_the_table(measured):
    for cell, rows in measured.items():
        assert {row["reason"] for row in rows} == {""}
        own, *others = rows
        assert len(others) > 1
        assert (own["way"], own["table_ratio"]) == (maps_gpu.TABLE, 1)
        for row in others:
            ratio = row["roof_fraction"] / own["roof_fraction"]
            assert np.isfinite(ratio) and row["table_ratio"] > 0
            assert row["error_u_max"] <= CONFIG["maps_gpu"]["error_limit_u"]["float32"]
        chosen = plan.choose(cell.direction, cell.rows, cell.hidden, 4, plan.lie(cell.hidden, 4, 0), SMALL)
        assert (own["threads"], own["team"]) == (chosen.map.threads, chosen.map.team)
        assert own["rest_share"] == chosen.rest.share


@needs_compiler
def test_a_candidate_that_does_not_fit_the_device_has_its_reason():
    board, values = HostBoard(), CONFIG["maps_gpu"] | {"hidden": [1000], "dtypes": ["float32"]}
    board.machine.hardware = board.machine.hardware._replace(hopper=False)
    (cell, names), *_ = maps_gpu.cells(**values).items()
    rows, _ = maps_gpu.measure(board, Pool(board, 1), cell, names, time_left=float, **values)
    refused = {row["way"]: row["reason"] for row in rows if row["reason"]}
    assert refused.keys() == {name for name in names if "ring" in name} != set()
    assert all("which this device does not have" in reason for reason in refused.values())


class Counting(Emulation):
    """Remembers the kernels and blocks that it was to launch, and launches none."""

    def launch(self, program, how, arguments):
        self.ran = [*getattr(self, "ran", []), (program.kernel, program.template[2], how.blocks)]


@pytest.mark.parametrize("direction", list(MAPS))
@pytest.mark.parametrize("clusters", [0, 4])
def test_the_mapping_of_the_table_is_the_one_that_a_device_uses(direction, clusters):
    cell = Shape(direction, "float32", "float32", 1, 65536)
    x, gamma = np.ones((1, cell.hidden), np.float32), np.ones(cell.hidden, np.float32)
    machine = Counting(hardware=H200)
    machine.clusters = lambda program, how: clusters
    forward, backward = maps_gpu._passes(machine, direction, None)
    _, saved = forward(x, gamma, gamma, 1e-5)
    backward(x, saved)
    went = [text for kernel, text, _ in machine.ran if kernel == direction]
    candidate = maps_gpu._chosen(machine, cell, Arrays(x, gamma, gamma, x))
    assert ([candidate.map.text] if candidate else []) == went
    assert bool(went) == bool(clusters)


@pytest.mark.parametrize("direction", list(MAPS))
def test_one_pass_uses_the_candidate_with_its_rest_and_the_other_does_not(direction):
    chosen = Map(threads=64, blocks=2, cluster=1, team=8, chunks=2, rows=2, ring=False)
    x, gamma = np.ones((400, 61), np.float32), np.ones(61, np.float32)
    found = {}
    for rest in (Rest(0.0, 1), Rest(1.0, 1)):
        machine = Counting()
        forward, backward = maps_gpu._passes(machine, direction, Candidate(chosen, rest))
        _, saved = forward(x, gamma, gamma, 1e-5)
        backward(x, saved)
        found[rest] = {kernel: (text, blocks) for kernel, text, blocks in machine.ran}
        how = plan.fit(direction, chosen._replace(lie=plan.RAGGED), 400, 61, 4, SMALL, rest)
        assert found[rest][direction] == (how.map.text, how.blocks)
    none, all_rows = found.values()
    assert none[direction][1] < all_rows[direction][1]
    (other,) = {*MAPS} - {direction}
    assert none[other] == all_rows[other] != none[direction]


def test_the_figure_names_the_candidates_that_are_clearly_faster_than_the_table():
    cell = {"direction": "forward", "dtype": "float32", "gamma_dtype": "float32", "rows": 9, "hidden": 64}
    times = {"table": 1.0, "slow": 1.5, "quick": 0.8, "quicker": 0.7}
    rows = [
        cell
        | {"way": way, "roof_fraction": 0.5 / ratio, "table_ratio": ratio, "table_ratio_high": ratio + 0.01}
        for way, ratio in times.items()
    ]
    figure = draw(table(rows, "maps_gpu"))
    note = figure.get_supxlabel()
    assert note == "Faster than the table's way (time over its time): forward float32 D = 64: quicker (0.70)."
    (panel,) = figure.axes
    fastest = [line for line in panel.lines if line.get_marker() == "D"]
    assert [line.get_ydata().tolist() for line in fastest] == [[0.5 / 0.7]]
    rows[-1]["table_ratio_high"] = 0.99
    assert draw(table(rows, "maps_gpu")).get_supxlabel() == ""


@pytest.mark.parametrize("ring", [False, True])
def test_the_caption_of_the_figure_explains_each_word_of_a_candidates_name(ring):
    name = Candidate(Map(128, 6, 1, 16, 4, 1, ring=ring), Rest(0.5, 2)).text
    assert [word for word in re.findall("[a-z]{2,}", name) if word not in CAPTION] == []

"""Numbers that stand in a header and in Python, each where its reader needs it: they are the same."""

import re

import pytest

from layernorm_backward.gpu import roofs
from layernorm_backward.kernels import cuda_fused, cuda_separate
from layernorm_backward.kernels.cuda import columns, plan
from layernorm_backward.kernels.cuda.machine import SOURCES
from layernorm_backward.kernels.cuda.maps import CHUNK, RAGGED, Map

TWICE = {
    "columns.cuh": {"ACROSS": columns.ACROSS, "DOWN": columns.DOWN},
    "map.cuh": {"WARP": plan.WARP},
    "separate.cuh": {"UNROLL": cuda_separate.UNROLL},
    "streams.cuh": {"STREAM_CHUNKS": roofs.CHUNKS, "chains": roofs.CHAINS},
    "wide.cuh": {"WIDE_COLUMNS": cuda_fused.WIDE_COLUMNS},
}
# Threads of a block, and what they are shared by; blocks of a multiprocessor that the registers allow.
LAID = {
    "columns.cuh": ("ColumnMap", columns.ACROSS * columns.DOWN, columns.ACROSS, None),
    "separate.cuh": ("BlockMap", cuda_separate.THREADS, cuda_separate.THREADS, None),
    "streams.cuh": ("StreamMap", roofs.THREADS, roofs.THREADS, roofs.BLOCKS),
    "wide.cuh": ("WideMap", cuda_fused.WIDE_THREADS, cuda_fused.WIDE_THREADS, cuda_fused.WIDE_BLOCKS),
}


def source(file: str) -> str:
    return (SOURCES / file).read_text(encoding="utf-8")


def constants(text: str) -> dict[str, int]:
    lines = re.findall(r"constexpr int (.*);", text)
    return {name: int(value) for line in lines for name, value in re.findall(r"(\w+) = (\d+)(?=,|$)", line)}


@pytest.mark.parametrize("file", TWICE)
def test_a_constant_is_the_same_in_both(file):
    assert TWICE[file].items() <= constants(source(file)).items()


@pytest.mark.parametrize("file", LAID)
def test_a_map_that_stands_in_a_header_is_laid_as_it_is_launched(file):
    name, threads, team, blocks = LAID[file]
    (text,) = re.findall(rf"using {name} = Map<(.*)>;", source(file))
    known = constants(source(file))
    values = [eval(one, {}, known) for one in text.split(", ")[:4]]
    assert (values[0], values[3]) == (threads, team)
    assert blocks in (None, values[1])


def test_separate_warps_are_warps():
    assert "WarpMap = Map<256, 4, 1, 32," in source("separate.cuh")
    assert (cuda_separate.THREADS, cuda_separate.WARP) == (256, 32)


@pytest.mark.parametrize("itemsize", [2, 4, 8])
@pytest.mark.parametrize("team", [1, 8, 32, 256])
def test_a_thread_has_as_many_edges_in_both(itemsize, team):
    (text,) = re.findall(r"int edges = M::ragged \? (.*) : 0;", source("row.cuh"))
    lanes = CHUNK // itemsize
    formula = text.replace("LANES<T>", str(lanes)).replace("M::team", str(team)).replace("/", "//")
    one = Map(256, 1, 1, team, 1, 1, ring=False, lie=RAGGED)
    assert eval(formula) == plan.edges(one, itemsize)

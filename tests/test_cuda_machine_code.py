"""The machine code of every CUDA kernel, for compute capability 9.0 and 8.0; no GPU is needed."""

import os
import shutil
from collections import Counter
from itertools import product

import pytest

import machine_code
from layernorm_backward.gpu import command, precompile, program_cache
from layernorm_backward.gpu.part import Part
from layernorm_backward.kernels import cuda_separate
from layernorm_backward.kernels.cuda import plan
from layernorm_backward.kernels.cuda.machine import CPP_TYPES, SOURCES, Program
from layernorm_backward.kernels.cuda.maps import Map
from machine_code import ATOMICS, DOUBLES, MachineCode
from machine_code_rules import (
    BATCHES,
    DEVICES,
    OF_CAMPAIGNS,
    OTHER_PAIRS,
    PAIRS,
    RULES,
    SPILLED_BYTES,
    Batch,
    arrays_go_by_16_bytes,
    blocks_are_as_the_map_says,
    broken,
    clusters_are_arrived_at_behind_a_fence,
    compiled,
    copies_are_asked_for_behind_a_fence,
    nothing_is_atomic,
    nothing_spills_but_what_is_known_to,
    only_float64_is_summed_in_double,
    registers_suffice,
    registers_suffice_for_the_blocks,
    rings_are_read_by_16_bytes,
    shared_memory_is_what_the_plan_counts_on,
    spills,
    the_sum_of_columns_may_begin,
)
from workspace import ROOT

MISSING = machine_code.missing()
STUDIES = ("paper", "full")
pytestmark = pytest.mark.skipif(bool(MISSING) and not os.environ.get("CI"), reason=MISSING)


@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: batch.text)
def test_machine_code(batch):
    codes = compiled(batch)
    assert any(one.ring for one in codes) == DEVICES[batch.arch].hopper
    assert broken(batch, codes) == {}


@pytest.fixture(scope="module")
def needed():
    """All programs of the configured campaigns on a device of compute capability 9.0."""
    wanted = [one for study in STUDIES for one in command._wanted(ROOT / "config" / study, command.STEMS)]
    parts = [Part(one.experiment, one.values) for one in wanted]
    return set(precompile.programs(DEVICES["sm_90"], parts))


@pytest.mark.parametrize("batch", OF_CAMPAIGNS, ids=lambda batch: batch.text)
def test_machine_code_of_the_maps_that_campaigns_run(batch, needed):
    wanted = needed & set(batch.programs.values())
    assert wanted
    assert broken(batch, compiled(batch, wanted)) == {}


def test_every_program_of_the_configured_campaigns_is_inspected(needed):
    batches = [batch for batch in (*BATCHES, *OF_CAMPAIGNS) if batch.arch == "sm_90"]
    assert needed <= {*other_programs(), *(one for batch in batches for one in batch.programs.values())}


def without(code: MachineCode, *starts: str, number: int = 1) -> MachineCode:
    """The code with fewer instructions of an opcode."""
    opcode = next(found for found in code.opcodes if found.startswith(starts))
    return code._replace(opcodes=code.opcodes - Counter({opcode: number}))


def with_more(code: MachineCode, opcode: str) -> MachineCode:
    return code._replace(opcodes=code.opcodes + Counter([opcode]))


INJECTED = {
    nothing_spills_but_what_is_known_to: (
        lambda code: code._replace(stack_bytes=8),
        lambda code: with_more(code, "STL.64"),
    ),
    blocks_are_as_the_map_says: (
        lambda code: code._replace(cluster=3),
        lambda code: code._replace(threads=96),
    ),
    registers_suffice_for_the_blocks: (lambda code: code._replace(registers=129),),
    shared_memory_is_what_the_plan_counts_on: (
        lambda code: code._replace(shared_bytes=code.shared_bytes + 16),
    ),
    arrays_go_by_16_bytes: (
        lambda code: with_more(code, "LDG.E.128"),
        lambda code: without(code, "LDG.E.128"),
        lambda code: with_more(code, "LDG.E"),
        lambda code: without(code, "STG.E.128"),
    ),
    rings_are_read_by_16_bytes: (
        lambda code: without(code, "UBLKCP", number=2),
        lambda code: without(code, "LDS.128"),
    ),
    nothing_is_atomic: (lambda code: with_more(code, "RED.E.ADD.F32.FTZ.RN.STRONG.GPU"),),
    only_float64_is_summed_in_double: (lambda code: with_more(code, "DFMA"),),
    the_sum_of_columns_may_begin: (lambda code: with_more(code, "PREEXIT"),),
}
_FENCE = "                    order_before_arrival();\n"
_PUT = "                    put(blocks[turn], values);\n"
LEFT_OUT = (
    (copies_are_asked_for_behind_a_fence, "ring.cuh", "        order_before_copies();\n", ""),
    (clusters_are_arrived_at_behind_a_fence, "team.cuh", _FENCE, ""),
    (clusters_are_arrived_at_behind_a_fence, "team.cuh", _PUT + _FENCE, _FENCE + _PUT),
    (clusters_are_arrived_at_behind_a_fence, "team.cuh", "            cluster_wait();\n", ""),
)


def test_each_rule_detects_a_violation():
    batch = Batch("sm_90", "forward", "float32", "float32", plan.ALIKE)
    codes = compiled(batch)
    longest = next(one for one in codes if one.ring and one.cluster == 1)
    assert INJECTED.keys() | {rule for rule, *_ in LEFT_OUT} == set(RULES)
    for rule, injections in INJECTED.items():
        for inject in injections:
            assert broken(batch, codes | {longest: inject(codes[longest])}).keys() == {rule.__name__}


@pytest.mark.parametrize(("rule", "file", "old", "new"), LEFT_OUT)
def test_a_missing_fence_in_the_sources_is_detected(tmp_path, rule, file, old, new):
    """No emulation on a CPU detects it."""
    batch = Batch("sm_90", "backward", "float32", "float32", plan.ALIKE)
    one = next(one for one in batch.maps if one.cluster == 2)
    program = Program("backward", "backward", ("float", "float", one.text))
    shutil.copytree(SOURCES, tmp_path / "sources", ignore=shutil.ignore_patterns("__pycache__"))
    path = tmp_path / "sources" / file
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    told = [
        list(rule(batch, {one: machine_code.inspect([program], "sm_90", sources)[program]}))
        for sources in (SOURCES, tmp_path / "sources")
    ]
    assert [bool(faults) for faults in told] == [False, True]


def test_partial_sums_that_are_stored_one_by_one_are_detected():
    batch = Batch("sm_90", "backward", "float32", "float32", plan.ALIKE)
    codes = compiled(batch)
    longest = next(reversed(codes))
    code = codes[longest]
    one_by_one = code._replace(opcodes=code.opcodes + Counter({"STG.E.128": -1, "STG.E": 4}))
    assert broken(batch, codes) == {}
    assert broken(batch, codes | {longest: one_by_one}).keys() == {"arrays_go_by_16_bytes"}


@pytest.mark.parametrize("kernel", plan.MAPS)
@pytest.mark.parametrize(("x", "gamma"), PAIRS)
def test_ragged_rows_take_few_more_instructions(kernel, x, gamma):
    """With a mask per element there were twice as many, and up to five times as many in the loop."""
    alike, ragged = (
        {one._replace(lie=plan.ALIKE): code.opcodes.total() for one, code in compiled(batch).items()}
        for batch in (Batch("sm_90", kernel, x, gamma, lie) for lie in (plan.ALIKE, plan.RAGGED))
    )
    assert ragged
    for one, count in ragged.items():
        assert count <= 1.6 * alike[one], one
    assert sum(ragged.values()) <= 1.3 * sum(alike[one] for one in ragged)


@pytest.mark.parametrize("lie", [plan.FULL, plan.ALIKE])
def test_gamma_and_beta_in_their_storage_dtype_leave_room_for_more_threads(lie):
    """As numbers they need 14 registers more than there are for a block of 2 chunks, 10 for one of 1."""
    maps = [
        Map(threads, blocks, 1, threads, chunks, 1, ring=False, lie=lie)
        for threads, blocks, chunks in ((256, 5, 2), (128, 10, 2), (256, 8, 1))
    ]
    programs = {Program("forward", "forward", ("bf16", "bf16", one.text)): one for one in maps}
    for program, code in machine_code.inspect(list(programs), "sm_90").items():
        assert registers_suffice(code, programs[program].blocks), program
        assert not spills(code), program


def test_a_known_spill_that_is_gone_is_reported():
    arch, kernel, x, one = next(iter(SPILLED_BYTES))
    batch = Batch(arch, kernel, x, x, one.lie)
    code = MachineCode(128, 0, 0, one.threads, one.cluster, (), Counter())
    assert list(nothing_spills_but_what_is_known_to(batch, {one: code})) == [(one, 0)]


def test_known_spills_are_of_maps_that_are_compiled():
    assert SPILLED_BYTES.keys() <= {(*batch[:3], one) for batch in BATCHES for one in batch.maps}


BOUNDS = {  # threads of a block, and blocks of a multiprocessor
    "ColumnMap": (512, 2),
    "WideMap": (512, 2),
    "StreamMap": (256, 4),
    "WarpMap": (256, 4),
    "BlockMap": (256, 4),
}


def other_programs() -> list[Program]:
    """Kernels that have one map each."""
    pairs = [*PAIRS, *OTHER_PAIRS]
    types = [tuple(CPP_TYPES[name] for name in pair) for pair in pairs]
    sums = [("float", "bf16"), ("float", "float"), ("float", "f16"), ("double", "double")]
    wide = ("forward_wide", "project_wide", "differentiate_wide")
    ways = product(CPP_TYPES.values(), ("true", "false"), ("true", "false"))  # triad, streamed
    lengths = (1, cuda_separate.SHORT + 1)
    return [
        *(
            Program("columns", "add_partials", (*pair, "ColumnMap", rows))
            for pair, rows in product(sums, ("1", "16"))
        ),
        *(Program("wide", kernel, (*pair, "WideMap")) for kernel, pair in product(wide, types)),
        *(Program("streams", "stream", (*way, "StreamMap")) for way in ways),
        *(Program("streams", "multiply_adds", (one, "StreamMap")) for one in ("float", "double")),
        *program_cache.needed(
            [("cuda_separate", *pair, size) for pair, size in product(pairs, lengths)], DEVICES["sm_90"]
        ),
    ]


@pytest.mark.parametrize("arch", DEVICES)
def test_the_other_kernels(arch):
    for program, code in machine_code.inspect(other_programs(), arch).items():
        threads, blocks = next(BOUNDS[one] for one in program.template if one in BOUNDS)
        assert (code.threads, code.cluster) == (threads, 1), program
        assert registers_suffice(code, blocks), program
        assert not spills(code), program
        assert not code.count(*ATOMICS), program
        assert "double" in program.template or not code.count(*DOUBLES), program
        if program.kernel == "add_partials":
            loads = [number for number, opcode in enumerate(code.order) if opcode.startswith("LDG")]
            waits = [number for number, opcode in enumerate(code.order) if opcode.startswith("ACQBULK")]
            assert len(waits) == DEVICES[arch].hopper, program  # for the kernel that writes the partial sums
            assert not waits or waits[0] < min(loads), program
        if program.kernel == "stream":
            _, triad, streamed, _ = program.template
            loads = "LDG.E.EF.128" if streamed == "true" else "LDG.E.128"
            assert (code.count(loads), code.count("STG")) == (8 if triad == "true" else 4, 4), program

"""Requirements of the PTX memory model that neither machine code nor the emulation shows.

Compute capability 9.0 has no instruction for the fence after the opening of a gate, and its compiler moves
nothing across an asm statement without "memory" clobber; another compiler may. No GPU is needed.
"""

import os
import re
import shutil

import pytest

import machine_code
from layernorm_backward.kernels.cuda.compiler import OPTIONS
from layernorm_backward.kernels.cuda.machine import SOURCES, Program
from layernorm_backward.kernels.cuda.maps import ALIKE, APART, Map

MISSING = machine_code.missing()
needs_compiler = pytest.mark.skipif(bool(MISSING) and not os.environ.get("CI"), reason=MISSING)
SHORT = {
    "mbarrier.init": "open ",
    "fence.mbarrier_init": "fence ",
    "bar.sync": "meet ",
    "fence.proxy.async.shared::cta": "order ",
    "mbarrier.arrive.expect_tx.shared::cta": "expect ",
    "cp.async.bulk": "copy ",
    "mbarrier.try_wait": "wait ",
}
STORES = {"st": "store ", "st.shared": "store ", "st.global": ""}
# Gates are opened, for all threads and for copies; the first rows are copied; then, after the barrier of all
# threads that have read a stage, the next row for it.
RIGHT = "(open fence )+meet (order expect (copy )+)+(wait )+((meet )+order expect (copy )+)+"
RINGS = [
    Program(kernel, kernel, ("float", "float", Map(*shape, ring=True, lie=lie).text))
    for kernel in ("backward", "forward")
    for shape, lie in (((128, 5, 1, 128, 2, 1), APART), ((256, 3, 2, 256, 3, 1), ALIKE))
]
EXPECT = "        expect_bytes(gate(s), bytes);\n"
COMPLETE = "            slices[a].complete(row, const_cast<T*>(local(a, s)));\n"
FENCE = '    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");\n'
OPEN = "            for (int s = 0; s < stages; ++s) open_gate(gate(s));\n        }\n"
MEET = "        block_barrier();\n"
LEFT_OUT = {
    "the fence of a gate": ("device/primitives.cuh", FENCE, ""),
    "the barrier behind the gates": ("ring.cuh", OPEN + MEET, OPEN),
    "the order of reads and copies": ("ring.cuh", "        order_before_copies();\n", ""),
    "the bytes expected": ("ring.cuh", EXPECT, ""),
}
# Instructions by which threads, copies and launches wait for each other, or that write memory.
ORDERING = ("mbarrier.", "fence.", "barrier.cluster.", "griddepcontrol.wait", "cp.async.", "st.", "ld.shared")
BEGINS_ANYWHERE = "griddepcontrol.launch_dependents"  # it orders nothing


def ptx(program, sources=SOURCES):
    """The PTX of a program for compute capability 9.0."""
    from cupy.cuda import nvrtc

    headers = [*sources.glob("*.cuh"), *(sources / "device").glob("*.cuh")]
    contents, names = [path.read_bytes() for path in headers], [path.name.encode() for path in headers]
    handle = nvrtc.createProgram(f'#include "{program.source}.cuh"\n', "one.cu", contents, names)
    try:
        nvrtc.addNameExpression(handle, program.text)
        nvrtc.compileProgram(handle, (*OPTIONS, "-arch=compute_90"))
        found = nvrtc.getPTX(handle)
    finally:
        nvrtc.destroyProgram(handle)
    return found if isinstance(found, str) else found.decode()


def ordered(text, short=SHORT):
    """The operations of a ring, in the order in which the PTX lists them."""
    names = "|".join(map(re.escape, sorted(short, reverse=True)))
    found = re.findall(rf"^\s*(?:@!?%\w+\s+)?({names})\b", text, re.MULTILINE)
    return "".join(short[name] for name in found)


def completed(text):
    """Whether what copies leave out of a row is written before the arrival that makes it visible to others.

    In the emulation a copy makes everything visible that was written before it was issued.
    """
    found = ordered(text, SHORT | STORES)
    return "order store " in found and not re.search("expect (copy )*store ", found)


@needs_compiler
@pytest.mark.parametrize("program", RINGS, ids=lambda program: program.text)
def test_a_ring_opens_its_gates_before_copies_and_copies_only_to_stages_that_nobody_reads(program):
    assert re.fullmatch(RIGHT, ordered(ptx(program)))


@needs_compiler
@pytest.mark.parametrize("what", LEFT_OUT)
def test_a_missing_statement_of_a_ring_is_detected(what, tmp_path):
    file, old, new = LEFT_OUT[what]
    sources = tmp_path / "sources"
    shutil.copytree(SOURCES, sources, ignore=shutil.ignore_patterns("__pycache__"))
    text = (sources / file).read_text()
    assert text.count(old) == 1
    (sources / file).write_text(text.replace(old, new))
    for program in RINGS:
        assert not re.fullmatch(RIGHT, ordered(ptx(program, sources)))


@needs_compiler
def test_elements_that_copies_leave_out_of_a_row_are_written_before_the_arrival(tmp_path):
    ragged = [program for program in RINGS if f"{int(APART)}>" in program.text]
    sources = tmp_path / "sources"
    shutil.copytree(SOURCES, sources, ignore=shutil.ignore_patterns("__pycache__"))
    text = (sources / "ring.cuh").read_text()
    assert text.count(COMPLETE) == text.count(EXPECT) == 1
    row = "            const T* row = slices[a].row(i);\n"
    later = f"{EXPECT}        for (int a = 0; a < ARRAYS; ++a) {{\n{row}{COMPLETE}        }}\n"
    (sources / "ring.cuh").write_text(text.replace(COMPLETE, "").replace(EXPECT, later))
    assert ragged
    for program in ragged:
        assert completed(ptx(program)) and not completed(ptx(program, sources))


def statements():
    """The asm statements of the device that order memory accesses or launches."""
    text = (SOURCES / "device" / "primitives.cuh").read_text(encoding="utf-8")
    found = re.findall(r"\basm\b[^;]*\((?:[^;\"]|\"[^\"]*\")*\);", text)
    assert len(found) == len(re.findall(r"\basm\b", text))
    return [one for one in found if any(name in one for name in ORDERING) and BEGINS_ANYWHERE not in one]


WAITED = 'done, [%0], %1;\\n"\n        "@!done bra again'
PAIR = '%0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low))'
# Primitives that the emulation implements differently: the corresponding text in PTX, and its occurrences.
PRIMITIVES = (SOURCES / "device" / "primitives.cuh").read_text(encoding="utf-8")
MEANT = {
    "one thread arrives at a gate in each phase": (r"mbarrier\.init\S* \[%0\], (\d+);", {"1"}, 1),
    "a thread waits until a phase has ended": (r"try_wait\.\S* (done, .*\n.*bra again)", {WAITED}, 1),
    "the second number of a pair is its upper half": (r"f16x2\.f32 (%0, %1, %2;.*);", {PAIR}, 2),
    "a warp goes on where one of its threads wants to": (
        r"return __(\w+)_sync\(0xffffffffu, one",
        {"any"},
        1,
    ),
}


@pytest.mark.parametrize(("pattern", "meant", "number"), MEANT.values(), ids=MEANT)
def test_a_primitive_matches_its_emulation(pattern, meant, number):
    found = re.findall(pattern, PRIMITIVES)
    assert (set(found), len(found)) == (meant, number)


@pytest.mark.parametrize("name", ORDERING)
def test_each_ordering_instruction_occurs_in_a_statement(name):
    assert any(name in one for one in statements())


@pytest.mark.parametrize("one", statements(), ids=lambda one: re.search(r"[a-z_]+\.[\w.:]+", one)[0])
def test_the_compiler_moves_no_memory_access_across_an_ordering_statement(one):
    assert one.startswith("asm volatile(")
    assert re.search(r':[^"]*"memory"\);$', one.replace("\n", " "))

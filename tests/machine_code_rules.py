"""Rules that the machine code of the kernels over rows obeys, and the batches in which it is compiled.

A batch is one kernel with every map, for one pair of dtypes and one alignment of rows; or with the maps that
campaigns on a GPU run. A rule inspects the code of a batch and yields the faults.
"""

from collections.abc import Container, Iterator
from itertools import product
from typing import NamedTuple

import machine_code
from gpus import A100, H200
from layernorm_backward.dtypes import dtype_of, sum_dtype
from layernorm_backward.kernels.cuda import plan
from layernorm_backward.kernels.cuda.machine import CPP_TYPES, Program
from layernorm_backward.kernels.cuda.maps import CHUNK, Map
from machine_code import ATOMICS, DOUBLES, MachineCode

REGISTERS, GRANULE = 65536, 8  # of a multiprocessor; a thread is given a multiple of
DEVICES = {"sm_90": H200, "sm_80": A100}
# Of x, of gamma. For sm_80 fewer will do: float16 has the same code as bfloat16 but for conversions, and rows
# that are APART need all that RAGGED ones do.
PAIRS = (("bfloat16", "float32"), ("float32", "float32"), ("float64", "float64"), ("float16", "float16"))
COMPILED = {
    "sm_90": (PAIRS, (plan.FULL, plan.ALIKE, plan.RAGGED, plan.APART)),
    "sm_80": (PAIRS[:3], (plan.FULL, plan.APART)),
}
# For sm_90, with those maps only that campaigns on a GPU run.
OTHER_PAIRS = (("bfloat16", "bfloat16"), ("float16", "float32"))
UNCENTRED = (("float32", "float32"), ("bfloat16", "bfloat16"))
VECTORS = {"forward": 2, "backward": 1}  # gamma and beta
STATISTICS = {"forward": 1, "backward": 2}  # read of a row: a sample of it, or mean and rstd
SWEEPS = {"forward": 3, "backward": 2}  # over a row in the ring; forward once more where the mean is far
_ARRIVING = ("STS", "MEMBAR", "FENCE", "WARPSYNC")

# Some maps want a few registers more than a thread may have.
_FEW = Map(256, 4, 1, 256, 2, 1, ring=False)
_THREE = Map(256, 3, 1, 256, 3, 1, ring=False)
_APART = {
    "float32": (Map(256, 3, 2, 256, 3, 1, ring=True),),
    "bfloat16": (Map(128, 5, 1, 128, 2, 1, ring=True), Map(512, 1, 8, 512, 3, 1, ring=True)),
}
SPILLED_BYTES = {
    ("sm_90", "backward", dtype, one._replace(lie=plan.APART)): 8
    for dtype, maps in (_APART | {"float16": _APART["bfloat16"]}).items()
    for one in maps
}
SPILLED_BYTES |= {
    (arch, "backward", "float32", one._replace(lie=lie)): most
    for one, most in ((_FEW, 16), (_THREE, 24))
    for arch, lie in (("sm_90", plan.RAGGED), ("sm_90", plan.APART), ("sm_80", plan.APART))
}


class Batch(NamedTuple):
    """What is compiled together."""

    arch: str
    kernel: str
    x: str
    gamma: str
    lie: int
    more: tuple[str, ...] = ()  # template arguments after the map

    @property
    def maps(self) -> list[Map]:
        """The maps of the device for the dtype of x and rows of this alignment."""
        held = plan._holding(self.kernel, 0, self.itemsize, self.lie)
        here = (plan._on(DEVICES[self.arch], one, self.kernel, self.itemsize) for one in held)
        return [one for one in here if one]

    @property
    def itemsize(self) -> int:
        return dtype_of(self.x).itemsize

    @property
    def text(self) -> str:
        return "-".join(map(str, (*self[:5], *self.more)))

    @property
    def programs(self) -> dict[Map, Program]:
        """By map."""
        types = (CPP_TYPES[self.x], CPP_TYPES[self.gamma])
        return {one: Program(self.kernel, self.kernel, (*types, one.text, *self.more)) for one in self.maps}


Codes = dict[Map, MachineCode]
BATCHES = [
    Batch(arch, kernel, *pair, lie)
    for arch, (pairs, lies) in COMPILED.items()
    for kernel in plan.MAPS
    for pair in pairs
    for lie in lies
]
OF_CAMPAIGNS = [
    *(
        Batch("sm_90", kernel, *pair, lie)
        for kernel, pair, lie in product(plan.MAPS, OTHER_PAIRS, COMPILED["sm_90"][1])
    ),
    *(Batch("sm_90", "backward", *pair, plan.FULL, ("false",)) for pair in UNCENTRED),
]


def compiled(batch: Batch, wanted: Container[Program] | None = None) -> Codes:
    """The machine code of a batch, by map; of no other programs than those wanted, if such are named."""
    programs = {one: program for one, program in batch.programs.items() if not wanted or program in wanted}
    codes = machine_code.inspect(list(programs.values()), batch.arch)
    return {one: codes[program] for one, program in programs.items()}


def spills(code: MachineCode) -> bool:
    return bool(code.stack_bytes or code.count("LDL", "STL"))


def registers_suffice(code: MachineCode, blocks: int) -> bool:
    """Whether registers suffice for `blocks` blocks at once on a multiprocessor."""
    return -(-code.registers // GRANULE) * GRANULE * code.threads * blocks <= REGISTERS


def twice(batch: Batch, one: Map) -> bool:
    """Whether a team loads its next rows before it uses the current ones, as `Loaded` in backward.cuh."""
    if one.ring or batch.kernel == "forward":
        return False
    wide = sum_dtype(dtype_of(batch.x)).itemsize
    words = one.chunks * (16 * one.rows + 12 * wide // batch.itemsize)
    return (words + 24) * one.threads * one.blocks <= REGISTERS


def copies(batch: Batch, one: Map) -> int:
    """Copies of the code for a round of rows in registers: one for full rounds, one for others."""
    return 2 if twice(batch, one) or (one.rows > 1 and not one.ring) else 1


def loads_of_rounds(batch: Batch, one: Map) -> int:
    """Copies of the code that loads a round: for the first, the next, and rounds that are not full."""
    return copies(batch, one) + twice(batch, one)


def quads(batch: Batch, one: Map) -> tuple[int, int]:
    """Numbers of 16-byte loads (rows in registers, gamma, beta) and stores (results, and the partial sums of
    a block with one team).
    """
    held = one.rows * one.chunks
    loads = 0 if one.ring else plan.READ[batch.kernel] * loads_of_rounds(batch, one) * held
    chunks = copies(batch, one) * held
    vectors = VECTORS[batch.kernel] * one.chunks * (dtype_of(batch.gamma).itemsize // batch.itemsize)
    by_quads = batch.kernel == "backward" and one.teams == 1 and one.lie <= plan.ALIKE
    sums = 2 * one.chunks * (sum_dtype(dtype_of(batch.x)).itemsize // batch.itemsize) if by_quads else 0
    return loads + vectors, chunks + sums


def singles(batch: Batch, one: Map) -> set[int]:
    """The possible numbers of other loads: of vectors that are not aligned, and per row its statistics or a
    sample. Where a thread has a whole row, the compiler may find the sample in a chunk.
    """
    rows = 2 if one.ring else loads_of_rounds(batch, one) * one.rows  # with a ring the first, and one ahead
    vectors = VECTORS[batch.kernel] * one.chunks * (CHUNK // batch.itemsize)
    found = one.rows if (batch.kernel, one.team, one.lie) == ("forward", 1, plan.FULL) else 0
    most = vectors + STATISTICS[batch.kernel] * rows
    return set(range(most - found, most + 1))


def nothing_spills_but_what_is_known_to(batch: Batch, codes: Codes) -> Iterator[object]:
    for one, code in codes.items():
        known = SPILLED_BYTES.get((*batch[:3], one), 0)
        if spills(code) != bool(known) or code.stack_bytes > known:
            yield one, code.stack_bytes


def blocks_are_as_the_map_says(batch: Batch, codes: Codes) -> Iterator[object]:
    for one, code in codes.items():
        if (code.threads, code.cluster) != (one.threads, one.cluster):
            yield one, code.threads, code.cluster


def blocks(batch: Batch, one: Map) -> int:
    """Resident blocks per multiprocessor for which there are registers; as `Roomy` in forward.cuh."""
    wider = dtype_of(batch.gamma).itemsize > batch.itemsize
    return min(one.blocks, 4) if batch.kernel == "forward" and wider and not one.ring else one.blocks


def registers_suffice_for_the_blocks(batch: Batch, codes: Codes) -> Iterator[object]:
    for one, code in codes.items():
        if not registers_suffice(code, blocks(batch, one)):
            yield one, code.registers


def shared_memory_is_what_the_plan_counts_on(batch: Batch, codes: Codes) -> Iterator[object]:
    for one, code in codes.items():
        if code.shared_bytes != plan.static_bytes(batch.kernel, one, batch.itemsize):
            yield one, code.shared_bytes


def arrays_go_by_16_bytes(batch: Batch, codes: Codes) -> Iterator[object]:
    """Rows in registers are read by 16 bytes, rows in a ring by bulk copies; gamma and beta are read by 16
    bytes where they are aligned; results are written by 16 bytes.
    """
    for one, code in codes.items():
        loads, stores = quads(batch, one)
        found = (code.count("LDG.E.128"), code.count("STG.E.128"))
        others = code.count("LDG") - loads
        if found != (loads, stores) or (batch.lie <= plan.ALIKE and others not in singles(batch, one)):
            yield one, code.opcodes


def rings_are_read_by_16_bytes(batch: Batch, codes: Codes) -> Iterator[object]:
    read = plan.READ[batch.kernel]
    for one, code in codes.items():
        copies, loads = (read, read * one.chunks * SWEEPS[batch.kernel]) if one.ring else (0, 0)
        if code.count("UBLKCP") < copies or code.count("LDS.128") < loads:
            yield one, code.opcodes


def nothing_is_atomic(batch: Batch, codes: Codes) -> Iterator[object]:
    for one, code in codes.items():
        if code.count(*ATOMICS):
            yield one, code.opcodes


def only_float64_is_summed_in_double(batch: Batch, codes: Codes) -> Iterator[object]:
    for one, code in codes.items():
        if bool(code.count(*DOUBLES)) != (batch.x == "float64"):
            yield one, code.opcodes


def since_barrier(code: MachineCode, end: int) -> tuple[str, ...]:
    """The opcodes between the last barrier of a block or cluster before number `end`, and that number."""
    begin = next((at for at in range(end - 1, -1, -1) if code.order[at].startswith(("BAR", "UCGABAR"))), -1)
    return code.order[begin + 1 : end]


def at(code: MachineCode, opcode: str) -> list[int]:
    return [number for number, found in enumerate(code.order) if found.startswith(opcode)]


def names(opcodes: tuple[str, ...]) -> list[str]:
    """The opcodes without modifiers."""
    return [opcode.partition(".")[0] for opcode in opcodes]


def copies_are_asked_for_behind_a_fence(batch: Batch, codes: Codes) -> Iterator[object]:
    """The fence orders them after the threads' reads of that stage, before the barrier."""
    for one, code in codes.items():
        for copy in at(code, "UBLKCP"):
            if "FENCE" not in names(since_barrier(code, copy)):
                yield one, copy


def clusters_are_arrived_at_behind_a_fence(batch: Batch, codes: Codes) -> Iterator[object]:
    """There is one arrival per wait. Where a warp has added up a block's sums, their store comes first, then
    the fence of its thread, then its warp; at the end of a kernel there are no sums.
    """
    for one, code in codes.items():
        before = [names(since_barrier(code, arrival)) for arrival in at(code, "UCGABAR_ARV")]
        if len(before) != code.count("UCGABAR_WAIT"):
            yield one, "arrivals and waits"
        with_sums = [[name for name in found if name in _ARRIVING] for found in before if "SHFL" in found]
        if bool(with_sums) != (one.cluster > 1):
            yield one, "arrivals with sums"
        for found in with_sums:
            if "STS" not in found or found[-1 - found[::-1].index("STS") :] != list(_ARRIVING):
                yield one, found


def the_sum_of_columns_may_begin(batch: Batch, codes: Codes) -> Iterator[object]:
    """It may begin while the last blocks of a backward pass run; it waits for them itself."""
    wanted = batch.kernel == "backward" and DEVICES[batch.arch].hopper
    for one, code in codes.items():
        if code.count("PREEXIT") != wanted:
            yield one, code.count("PREEXIT")


RULES = (
    nothing_spills_but_what_is_known_to,
    blocks_are_as_the_map_says,
    registers_suffice_for_the_blocks,
    shared_memory_is_what_the_plan_counts_on,
    arrays_go_by_16_bytes,
    rings_are_read_by_16_bytes,
    nothing_is_atomic,
    only_float64_is_summed_in_double,
    copies_are_asked_for_behind_a_fence,
    clusters_are_arrived_at_behind_a_fence,
    the_sum_of_columns_may_begin,
)


def broken(batch: Batch, codes: Codes) -> dict[str, list]:
    """The rules that the code of a batch violates, with the faults."""
    found = {rule.__name__: list(rule(batch, codes)) for rule in RULES}
    return {name: faults for name, faults in found.items() if faults}

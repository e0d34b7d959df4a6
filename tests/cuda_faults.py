"""Faults that a kernel's author could make: each a text patch, a case that shows it, and what catches it."""

from pathlib import Path
from typing import NamedTuple

from cuda_cases import (
    ALONE,
    APART,
    BLOCK,
    FAR,
    FOUR,
    LANES,
    PAIR,
    RAGGED,
    RING,
    THREE,
    WARP,
    WIDE,
    Case,
)
from layernorm_backward.kernels.cuda.emulation import Checker


class Fault(NamedTuple):
    """`old`, which occurs once in `file`, becomes `new`; `caught` is a pattern of the resulting message."""

    name: str
    file: str
    old: str
    new: str
    case: Case
    caught: str
    checker: Checker = "plain"

    def inject(self, sources: Path) -> None:
        """Patch a copy of the sources."""
        path = sources / self.file
        text = path.read_text()
        assert text.count(self.old) == 1, f"{self.file} holds {text.count(self.old)} of {self.old!r}"
        path.write_text(text.replace(self.old, self.new))


RACE = "data race"
OVERFLOW = "AddressSanitizer: heap-buffer-overflow"
FORWARD_RING = Case(RING, 40, 256, passes="forward")
RAGGED_RING = Case(RING, 40, 501, "bfloat16", lie=RAGGED, passes="backward")
BACKWARD_RING = Case(RING, 40, 256, passes="backward")
BACKWARD_LANES = Case(LANES, 21, 61, lie=RAGGED, passes="backward")
FORWARD_LANES = BACKWARD_LANES._replace(passes="forward")
FORWARD_PAIR = Case(PAIR, 30, 1024, "bfloat16", passes="forward")
BACKWARD_PAIR = FORWARD_PAIR._replace(passes="backward")
RAGGED_PAIR = Case(PAIR, 31, 501, lie=RAGGED, passes="backward")
REST_FORWARD_LANES = Case(LANES, 85, 61, lie=RAGGED, passes="forward", rest=(0.5, 1))
REST_BACKWARD_LANES = REST_FORWARD_LANES._replace(passes="backward")
REST_FORWARD_RING = Case(RING, 41, 256, passes="forward", rest=(0.5, 3))
REST_BACKWARD_RING = Case(RING, 41, 501, "bfloat16", lie=RAGGED, passes="backward", rest=(0.8, 2))
REST_FORWARD_PAIR = FORWARD_PAIR._replace(rest=(0.5, 3))
REST_BACKWARD_PAIR = RAGGED_PAIR._replace(rest=(0.6, 2))
REST_BACKWARD_FOUR = Case(FOUR, 31, 256, passes="backward", rest=(0.5, 3))
MANY_ROUNDS = Case(LANES, 500, 64, passes="backward")
SHORT_RING = Case(RING, 1, 3, "float16", "float16", RAGGED, "backward")
SUMS = Case(WARP, 300, 21, lie=RAGGED, passes="backward", sums=True)
BACKWARD_WIDE = Case(WIDE, 3, 4101, "float64", "float64", RAGGED, "backward")
FAR_ROWS = Case(RING, FAR // 1024 + 3, 1024, "float16", passes="forward")
FAR_LANES = Case(LANES, FAR // 64 + 8, 64, passes="forward")


_TEAM = (
    Fault(
        "the sums of a team are read without a barrier",
        "team.cuh",
        "        block_barrier();\n",
        "",
        FORWARD_RING,
        RACE,
        "thread",
    ),
    Fault(
        "the sums of a row go where those of the row before are read",
        "team.cuh",
        "put(parts[turn * warps",
        "put(parts[(turn ^ 1) * warps",
        FORWARD_RING,
        RACE,
        "thread",
    ),
    Fault(
        "a barrier in each of two branches",
        "team.cuh",
        "        block_barrier();\n",
        "        if (thread_index() % WARP == 0) block_barrier();\n        else block_barrier();\n",
        FORWARD_RING,
        "EmulationError.*at a barrier in different places",
    ),
    Fault(
        "sums go across the teams of a warp",
        "team.cuh",
        "if (mask >= width) break;",
        "",
        BACKWARD_LANES,
        "faulty: dx",
    ),
    Fault(
        "a shuffle in place of a barrier",
        "team.cuh",
        "        block_barrier();\n",
        "        shuffle_xor(0, 1);\n",
        FORWARD_RING,
        RACE,
        "thread",
    ),
    Fault(
        "lanes that have nothing to add skip a shuffle",
        "team.cuh",
        "values[i] += shuffle_xor(values[i], mask);",
        "if (values[i] != 0) values[i] += shuffle_xor(values[i], mask);",
        Case(WARP, 5, 40, passes="forward"),
        "EmulationError.*at a shuffle in different places",
    ),
)

_CLUSTER = (
    Fault(
        "the sums of a cluster are read without its barrier",
        "team.cuh",
        "            cluster_wait();\n            add_blocks",
        "            add_blocks",
        FORWARD_PAIR,
        "EmulationError.*arrives twice at a cluster's barrier",
    ),
    Fault(
        "a block arrives at its cluster's barrier before it has added up",
        "team.cuh",
        """            if (thread_index() < WARP) {
                A values[N];
                add_parts(turn, values);
                if (thread_index() == 0) {
                    put(blocks[turn], values);
                    order_before_arrival();
                }
            }
            cluster_arrive();
""",
        """            cluster_arrive();
            if (thread_index() < WARP) {
                A values[N];
                add_parts(turn, values);
                if (thread_index() == 0) {
                    put(blocks[turn], values);
                    order_before_arrival();
                }
            }
""",
        FORWARD_PAIR._replace(order="random"),
        RACE,
        "thread",
    ),
    Fault(
        "only one thread of each warp waits at a cluster's barrier",
        "team.cuh",
        "            cluster_wait();\n            add_blocks",
        "            if (thread_index() % WARP == 0) cluster_wait();\n            add_blocks",
        FORWARD_PAIR,
        "EmulationError.*arrives twice at a cluster's barrier",
    ),
    Fault(
        "a block ends while another reads its sums",
        "backward.cuh",
        "    if constexpr (M::cluster > 1) cluster_barrier();",
        "",
        BACKWARD_PAIR,
        "EmulationError.*has ended before it is read",
    ),
    Fault(
        "both blocks of a cluster write the statistics of a row",
        "forward.cuh",
        " && (M::cluster == 1 || cluster_rank() == 0)",
        "",
        FORWARD_PAIR,
        RACE,
        "thread",
    ),
    Fault(
        "the slices of a cluster omit the last chunks",
        "row.cuh",
        "slice = (all + M::cluster - 1) / M::cluster",
        "slice = all / M::cluster",
        Case(FOUR, 9, 344, "float16", passes="forward"),
        "faulty: y",
    ),
    Fault(
        "a block writes the partial sums of another",
        "backward.cuh",
        "static_cast<int64>(block_index() / M::cluster) * 2",
        "static_cast<int64>(block_index() % M::cluster) * 2",
        BACKWARD_PAIR,
        RACE,
        "thread",
    ),
)

_RING = (
    Fault(
        "the parity never flips",
        "ring.cuh",
        "parity ^= 1;",
        "",
        FORWARD_RING,
        "EmulationError.*a gate is used again before its phase has ended",
    ),
    Fault(
        "the first wait is for the phase before",
        "ring.cuh",
        "unsigned parity = 0;",
        "unsigned parity = 1;",
        Case(RING, 6, 256, passes="forward"),
        "EmulationError.*a block has ended before its bulk copies",
    ),
    Fault(
        "the bytes of one array are expected",
        "ring.cuh",
        "bytes += slices[a].bytes(row);",
        "bytes = slices[a].bytes(row);",
        BACKWARD_RING._replace(late=False),
        "EmulationError.*wait for ever: 64 of block 0 at a gate",
    ),
    Fault(
        "the last gate is not opened",
        "ring.cuh",
        "s < stages; ++s) open_gate",
        "s < stages - 1; ++s) open_gate",
        FORWARD_RING,
        "EmulationError.*a gate is used before it is opened",
    ),
    Fault(
        "gates are used without a barrier after they are opened",
        "ring.cuh",
        "        block_barrier();\n",
        "",
        FORWARD_RING,
        RACE,
        "thread",
    ),
    Fault(
        "one thread waits for a row",
        "ring.cuh",
        "void wait() { wait_gate",
        "void wait() { if (thread_index() == 0) wait_gate",
        FORWARD_RING._replace(order="reverse"),
        "faulty: y",
    ),
    Fault(
        "every thread copies a row",
        "ring.cuh",
        "if (used && thread_index() == 0 && ahead < rows)",
        "if (used && ahead < rows)",
        FORWARD_RING,
        "EmulationError.*a gate is used again before its phase has ended",
    ),
    Fault(
        "a stage is filled again before the barrier",
        "backward.cuh",
        """        meeting.template meet<3>();
        ring.refill(i, stride, rows, before.x.begin != nullptr);
""",
        """        ring.refill(i, stride, rows, before.x.begin != nullptr);
        meeting.template meet<3>();
""",
        BACKWARD_RING,
        RACE,
        "thread",
    ),
    Fault(
        "the stage that is being read is filled again",
        "ring.cuh",
        """        const int64 ahead = i + (stages - 1) * stride;
        if (used && thread_index() == 0 && ahead < rows) fill(stage ? stage - 1 : stages - 1, ahead);
""",
        """        const int64 ahead = i + stages * stride;
        if (thread_index() == 0 && ahead < rows) fill(stage, ahead);
""",
        BACKWARD_RING._replace(order="reverse", late=False),
        "faulty: dx",
    ),
    Fault(
        "rows behind the last are copied",
        "ring.cuh",
        "if (used && thread_index() == 0 && ahead < rows)",
        "if (used && thread_index() == 0)",
        FORWARD_RING,
        "EmulationError.*has ended before its bulk copies",
    ),
    Fault(
        "the gates have no room before the first slot",
        "ring.cuh",
        "const int gates = (stages * static_cast<int>(sizeof(Gate)) + 15) / 16 * 16;",
        "const int gates = 0;",
        FORWARD_RING,
        "EmulationError.*a gate was overwritten",
    ),
    Fault(
        "slots of two arrays overlap",
        "ring.cuh",
        "(s * ARRAYS + array) * slot",
        "(s + array) * slot",
        BACKWARD_RING._replace(late=False),
        "faulty: dx",
    ),
)
_ENDS = (
    Fault(
        "a copy begins before the array",
        "ring.cuh",
        "return M::ragged && row + first - before < begin;",
        "return false;",
        RAGGED_RING,
        "AddressSanitizer: use-after-poison",
        "address",
    ),
    Fault(
        "a copy extends behind the array",
        "ring.cuh",
        "return M::ragged && row + last + beyond > end;",
        "return false;",
        RAGGED_RING,
        OVERFLOW,
        "address",
    ),
    Fault(
        "what copies leave out is not completed",
        "ring.cuh",
        "            slices[a].complete(row, const_cast<T*>(local(a, s)));\n",
        "",
        RAGGED_RING,
        "faulty: dx is NaN elsewhere",
    ),
    Fault(
        "an edge is read behind the array",
        "row.cuh",
        "if (edge[k] < last) use",
        "if (edge[k] <= last) use",
        BACKWARD_LANES,
        OVERFLOW,
        "address",
    ),
    Fault(
        "an edge of the next row is taken for the row's",
        "row.cuh",
        "if (edge[k] < last) use",
        "if (edge[k] <= last) use",
        FORWARD_LANES._replace(nan_row=7),
        "faulty: y is NaN elsewhere",
    ),
    Fault(
        "gamma is read behind its end",
        "row.cuh",
        "if (M::full || column + c * step < limit) use",
        "if (M::full || column + c * step <= limit) use",
        BACKWARD_LANES,
        OVERFLOW,
        "address",
    ),
    Fault(
        "gamma is read by 16 bytes at any alignment",
        "row.cuh",
        "if (!aligned(from)) {",
        "if (false) {",
        BACKWARD_LANES,
        "EmulationError.*a 16-byte load is not at a multiple of 16",
    ),
    Fault(
        "the first edge behind a row's chunks is read before them",
        "row.cuh",
        "edge[k] = i < heads ? i",
        "edge[k] = i <= heads ? i",
        BACKWARD_LANES,
        "faulty: dx",
    ),
    Fault(
        "a thread skips its second edge",
        "row.cuh",
        "+ k * M::team;",
        "+ k * M::team * hidden;",
        Case(LANES, 21, 61, "bfloat16", lie=RAGGED, passes="backward"),
        "faulty: dx",
    ),
    Fault(
        "the sums of two teams' edges go to one place",
        "backward.cuh",
        "(M::chunks * LANES<T> + Share<T, M>::edges)",
        "(M::chunks * LANES<T>)",
        Case(LANES, 21, 67, lie=RAGGED, passes="backward"),
        OVERFLOW,
        "address",
    ),
    Fault(
        "each block of a cluster takes what is before the first chunk",
        "row.cuh",
        "const int heads = rank == 0 ? head : 0;",
        "const int heads = head;",
        RAGGED_PAIR,
        RACE,
        "thread",
    ),
    Fault(
        "no block of a cluster takes what is behind the last chunk",
        "row.cuh",
        "rank == M::cluster - 1 || limit > hidden ? hidden : limit",
        "limit > hidden ? hidden : limit",
        RAGGED_PAIR,
        "faulty: dx",
    ),
    Fault(
        "a row that ends before its first chunk would begin is read further",
        "row.cuh",
        "rank == M::cluster - 1 || limit > hidden ? hidden : limit",
        "rank == M::cluster - 1 ? hidden : limit",
        Case(FOUR, 30, 3, "bfloat16", lie=RAGGED, passes="backward"),
        "faulty: dx",
    ),
    Fault(
        "16-byte pieces are taken to begin where rows do",
        "ring.cuh",
        "(first - share.limit) & (LANES<T> - 1)",
        "0",
        RAGGED_RING,
        "EmulationError.*the source of a bulk copy is not at a multiple of 16",
    ),
    Fault(
        "the result of an edge goes one column too far",
        "forward.cuh",
        "y[at] = narrowed<T>(result[0]);",
        "y[at + 1] = narrowed<T>(result[0]);",
        FORWARD_LANES,
        RACE,
        "thread",
    ),
    Fault(
        "chunks are aligned as those of row 0",
        "forward.cuh",
        "head_of(y + skipped + static_cast<int64>(mine.team) * hidden)",
        "head_of(y)",
        FORWARD_LANES,
        "EmulationError.*a 16-byte load is not at a multiple of 16",
    ),
    Fault(
        "arrays of different alignment are read as if aligned alike",
        "ring.cuh",
        "return !M::apart || aligned(from) ? *",
        "return true ? *",
        Case(RING, 3, 129, "float64", "float64", lie=APART, passes="backward"),
        "runtime error: .*misaligned address",
        "address",
    ),
)
_READS = (
    Fault(
        "what copies leave out begins before the array",
        "ring.cuh",
        "c = high(row) > first ? high(row) : first",
        "c = high(row)",
        SHORT_RING,
        "AddressSanitizer: use-after-poison",
        "address",
    ),
    Fault(
        "what copies leave out extends behind the array",
        "ring.cuh",
        "c < low(row) && c < last",
        "c < low(row)",
        SHORT_RING,
        OVERFLOW,
        "address",
    ),
    Fault(
        "a row behind the last is sampled",
        "forward.cuh",
        "if (i + stride < rows) next[0]",
        "if (i < rows) next[0]",
        FORWARD_RING,
        OVERFLOW,
        "address",
    ),
    Fault(
        "a cluster without a row samples one",
        "forward.cuh",
        "if (begin < rows) next[0]",
        "next[0]",
        Case(FOUR, 1, 3, "float64", "float64", passes="forward"),
        OVERFLOW,
        "address",
    ),
    Fault(
        "the statistics of a row behind the last are read",
        "backward.cuh",
        "if (i + stride < rows) next.mean",
        "if (i < rows) next.mean",
        BACKWARD_RING,
        OVERFLOW,
        "address",
    ),
    Fault(
        "rows behind the last are loaded",
        "backward.cuh",
        "if (following.all()) next.template",
        "next.template",
        MANY_ROUNDS,
        OVERFLOW,
        "address",
    ),
    Fault(
        "partial sums of ragged rows are written by 16 bytes",
        "row.cuh",
        "    if constexpr (M::ragged) {\n",
        "    if constexpr (false) {\n",
        Case(BLOCK, 9, 501, "float16", "float16", RAGGED, "backward"),
        "runtime error: .*misaligned address",
        "address",
    ),
    Fault(
        "the first 16 bytes of gamma in its storage dtype are taken for all",
        "row.cuh",
        ": gathered(from + q * LANES<G>)",
        ": gathered(from)",
        Case(BLOCK, 5, 501, "bfloat16", "float32", RAGGED, "forward"),
        "faulty: y",
    ),
    Fault(
        "a row at a multiple of 16 bytes begins with a chunk of edges",
        "row.cuh",
        "return (LANES<T> - phase_of(at)) % LANES<T>;",
        "return LANES<T> - phase_of(at);",
        Case(ALONE, 40, 3, "float64", "float64", RAGGED, "forward"),
        "faulty: y",
    ),
)
_ROWS = (
    Fault(
        "the teams of blocks overlap",
        "map.cuh",
        "        teams *= M::teams;\n",
        "",
        Case(LANES, 80, 32, passes="forward"),
        RACE,
        "thread",
    ),
    Fault(
        "a thread also takes a column of its neighbour",
        "row.cuh",
        "static_cast<int64>(column) + c * step);",
        "static_cast<int64>(column) + c * (step - LANES<T>));",
        Case(BLOCK, 5, 500, passes="backward"),
        "faulty: dx",
    ),
    Fault(
        "the next rows are loaded but not used",
        "backward.cuh",
        "            now = next;\n",
        "",
        MANY_ROUNDS,
        "faulty: dx",
    ),
    Fault(
        "the current rows are loaded again instead of the next",
        "backward.cuh",
        "next.template load<true>(following,",
        "next.template load<true>(round,",
        MANY_ROUNDS,
        "faulty: dx",
    ),
    Fault(
        "the last rows are skipped",
        "forward.cuh",
        "    for (; round.any(); round.advance()) {",
        "    for (; round.all(); round.advance()) {",
        FORWARD_LANES,
        "faulty: y",
    ),
    Fault(
        "rows are counted by 32 bits",
        "ring.cuh",
        "return begin + i * hidden;",
        "return begin + static_cast<int>(i) * hidden;",
        FAR_ROWS,
        "runtime error: signed integer overflow",
        "address",
    ),
    *(
        Fault(
            f"rows in registers are counted by 32 bits {passes}",
            "row.cuh",
            "at = row * hidden;",
            "at = static_cast<int>(row) * hidden;",
            FAR_LANES._replace(passes=passes),
            "runtime error: signed integer overflow",
            "address",
        )
        for passes in ("forward", "backward")
    ),
    Fault(
        "partial sums are counted by 32 bits",
        "backward.cuh",
        "static_cast<int64>(block_index() / M::cluster) * 2 * hidden",
        "block_index() / M::cluster * 2 * hidden",
        FAR_ROWS._replace(passes="backward"),
        "runtime error: signed integer overflow",
        "address",
    ),
    Fault(
        "the sums of dbeta overwrite those of dgamma before these are read",
        "backward.cuh",
        "                to[column] = total;\n            }\n            block_barrier();\n",
        "                to[column] = total;\n            }\n",
        BACKWARD_LANES,
        RACE,
        "thread",
    ),
    Fault(
        "threads without a column leave before the barrier",
        "columns.cuh",
        "    A sum = 0;\n",
        "    if (column >= width) return;\n    A sum = 0;\n",
        SUMS,
        "EmulationError.*wait for ever",
    ),
    Fault(
        "the last partial sums are skipped",
        "columns.cuh",
        "row < count && column < width",
        "row + ROWS <= count && column < width",
        SUMS,
        "faulty: dgamma",
    ),
    Fault(
        "parts of the rows overlap",
        "wide.cuh",
        "i < rows * (part + 1) / parts",
        "i <= rows * (part + 1) / parts && i < rows",
        BACKWARD_WIDE,
        "faulty: dgamma",
    ),
    Fault(
        "columns behind the last are written",
        "wide.cuh",
        "        if (c >= hidden) continue;\n        to[c]",
        "        to[c]",
        BACKWARD_WIDE,
        OVERFLOW,
        "address",
    ),
)
_PORTION = (
    Fault(
        "the groups of later clusters overlap",
        "map.cuh",
        "? how.group : all - first;",
        "? how.group + 1 : all - first;",
        REST_BACKWARD_LANES,
        "faulty: dgamma",
    ),
    Fault(
        "there are rows between the groups of later clusters",
        "map.cuh",
        "how.together_bits) * how.group;",
        "how.together_bits) * (how.group + 1);",
        REST_FORWARD_RING,
        "faulty: y is NaN elsewhere",
    ),
    Fault(
        "later clusters begin at row 0",
        "map.cuh",
        "first = how.shared + ",
        "first = ",
        REST_FORWARD_LANES,
        "faulty: y is NaN elsewhere",
    ),
    Fault(
        "as many later clusters share a group as lead",
        "map.cuh",
        "            teams = 1 << how.together_bits;\n",
        "            teams = how.lead;\n",
        REST_BACKWARD_LANES,
        "faulty: dx is NaN elsewhere",
    ),
    Fault(
        "later clusters are counted on from those that lead",
        "map.cuh",
        "            team = later & (teams - 1);\n",
        "",
        REST_BACKWARD_FOUR,
        "faulty: dx is NaN elsewhere",
    ),
    Fault(
        "the clusters that lead go over all rows",
        "map.cuh",
        "rows(how.shared)",
        "rows(all)",
        REST_BACKWARD_RING,
        "faulty: dgamma",
    ),
    Fault(
        "two clusters write the same rows",
        "map.cuh",
        "rows(how.shared)",
        "rows(all)",
        REST_FORWARD_PAIR,
        RACE,
        "thread",
    ),
    Fault(
        "chunks of later clusters are aligned as those of the first rows",
        "backward.cuh",
        "head_of(dx + skipped + static_cast<int64>(mine.team) * hidden)",
        "head_of(dx + static_cast<int64>(mine.team) * hidden)",
        REST_BACKWARD_LANES,
        "EmulationError.*a 16-byte load is not at a multiple of 16",
    ),
    Fault(
        "later clusters write the statistics of the first rows",
        "forward.cuh",
        "    mean += mine.first;\n",
        "",
        REST_FORWARD_RING._replace(passes="forward backward"),
        "faulty: dx is NaN elsewhere",
    ),
    Fault(
        "later clusters read the statistics of the first rows",
        "backward.cuh",
        "    rstd += mine.first;\n",
        "",
        REST_BACKWARD_PAIR,
        "faulty: dx",
    ),
    Fault(
        "later clusters read the first rows",
        "backward.cuh",
        "    x += skipped;\n",
        "",
        REST_BACKWARD_FOUR,
        "faulty: dx",
    ),
    Fault(
        "later clusters write the partial sums of those that lead",
        "backward.cuh",
        "static_cast<int64>(block_index() / M::cluster) * 2",
        "static_cast<int64>(mine.team / M::teams) * 2",
        REST_BACKWARD_LANES,
        "faulty: dgamma is NaN elsewhere",
    ),
)
_FORMULAS = (
    Fault(
        "the rounded mean is taken as exact",
        "formulas.cuh",
        "        offset = -delta * rstd;\n        slope",
        "        offset = 0;\n        slope",
        Case(WARP, 9, 200, passes="backward", mean=1e5),
        "faulty: dx",
    ),
    Fault(
        "a row whose mean is far from its first elements' is not summed again",
        "formulas.cuh",
        "return delta * delta > var;",
        "return false;",
        Case(WIDE, 3, 4101, passes="forward", outliers=1e4),
        "faulty: y",
    ),
    Fault(
        "a row is summed again about the same number",
        "forward.cuh",
        "centre += Statistics<A>(sums, part).delta;",
        "",
        Case(RING, 40, 500, passes="forward", outliers=1e4),
        "faulty: y",
    ),
    *(
        Fault(
            f"a row that is summed again {whose} overwrites the sums of the next row",
            "forward.cuh",
            "second.add(sums);",
            "meeting.add(sums);",
            Case(one, 30, 500, passes="forward", outliers=1e4),
            "faulty: y",
        )
        for whose, one in (("by a block", RING), ("by a cluster", PAIR))
    ),
    Fault(
        "a team sums its rows again without the others of its warp",
        "forward.cuh",
        "if (any_of_warp(far))",
        "if (far)",
        Case(LANES, 40, 128, "bfloat16", passes="forward", outliers=1e4),
        "EmulationError.*wait for ever: .* at a shuffle",
    ),
    Fault(
        "only the last row of a round may be summed again",
        "forward.cuh",
        "far |= has(r)",
        "far = has(r)",
        Case(THREE, 40, 4096, passes="forward", outliers=1e4),
        "faulty: y",
    ),
    Fault(
        "rows of one element have a dx",
        "formulas.cuh",
        "share == 1 ? A(0) : rstd",
        "rstd",
        Case(LANES, 21, 1, passes="backward"),
        "faulty: dx",
    ),
)
FAULTS = (*_TEAM, *_CLUSTER, *_RING, *_ENDS, *_READS, *_ROWS, *_PORTION, *_FORMULAS)

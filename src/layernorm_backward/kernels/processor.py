"""The processor that Numba compiles for, and the choices of numba_fused that follow from its design.

Those choices change no bit of a result. Numba's cache identifies compiled code by the processor's name and
features, so compiled code may depend on them.
"""

from functools import cache
from typing import Any, NamedTuple

from numba.core.registry import cpu_target


class Traits(NamedTuple):
    """What numba_fused needs to know of a processor; by default it is a Xeon of the sixth generation.

    few_registers: the vector registers hold 512 bytes or less together (AVX2, AArch64), not 2048 (AVX-512).
    prefetch_to_l2: prefetches go to the second-level cache only, not to the first: on AMD's Zen. On a Zen 4,
    lines on their way to the first level delay others.
    single_rows: single rows take less time than groups at any length: on AMD's Zen 3 (its predecessors were
    not measured). Two rows side by side take 1.5 times as long there, and for some addresses of the result 6
    times.
    paged_backward: short rows of x and dy are read faster from memory where prefetches are interleaved over
    several pages: on Xeons of the fourth and fifth generation (the fourth was not measured). On the sixth a
    backward pass takes 1.1 times as long then; forward, where x is read alone, both are faster so.
    short_alone: where x is cache-resident, rows below 1 KB are faster backward one by one: on the same Xeons.
    On the sixth generation they are faster in pairs, as longer rows are.
    """

    few_registers: bool = False
    prefetch_to_l2: bool = False
    single_rows: bool = False
    paged_backward: bool = False
    short_alone: bool = False


def features(context: Any) -> set[str]:
    """LLVM's names of the instruction sets that a Numba context compiles for."""
    _, _, known = context.codegen().magic_tuple()
    return {name[1:] for name in known.split(",") if name.startswith("+")}


@cache
def traits() -> Traits:
    """The traits of the processor that Numba compiles for; cached, since LLVM takes 0.1 ms to answer."""
    context = cpu_target.target_context
    _, design, _ = context.codegen().magic_tuple()
    golden_cove = design in ("sapphirerapids", "emeraldrapids")
    return Traits(
        few_registers="avx512f" not in features(context),
        prefetch_to_l2=design.startswith("znver"),
        single_rows=design in ("znver1", "znver2", "znver3"),
        paged_backward=golden_cove,
        short_alone=golden_cove,
    )

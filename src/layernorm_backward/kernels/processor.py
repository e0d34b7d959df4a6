"""The processor that Numba compiles for, and what of numba_fused depends on its design: no bit of a result.

Numba keeps compiled code by the processor's name and features, so what follows from these may be compiled in.
"""

from functools import cache
from typing import Any, NamedTuple

from numba.core.registry import cpu_target


def features(context: Any) -> set[str]:
    """Names of the instruction sets that a Numba context compiles for, as LLVM has them."""
    _, _, known = context.codegen().magic_tuple()
    return {name[1:] for name in known.split(",") if name.startswith("+")}


def asks_far() -> bool:
    """Whether lines are asked for in the second-level cache instead of the first: on AMD's Zen.

    On a Zen 4 lines that are still on their way to the first level keep others from it.
    """
    return _host().design.startswith("znver")


def few_registers() -> bool:
    """Whether vector registers hold 512 bytes or less (AVX2, AArch64) instead of 2048 (AVX-512)."""
    return "avx512f" not in _host().features


def single_rows() -> bool:
    """Whether rows one by one take less time at any length: on AMD's Zen 3; its forebears were not tried.

    Two rows side by side take half as long again there, and six times as long at some places of the result.
    """
    return _host().design in ("znver1", "znver2", "znver3")


class _Host(NamedTuple):
    design: str
    features: set[str]


@cache
def _host() -> _Host:
    """Asked once: LLVM takes a tenth of a millisecond to tell."""
    context = cpu_target.target_context
    _, design, _ = context.codegen().magic_tuple()
    return _Host(design, features(context))

"""The compiled passes of numba_fused: vectors on the stack are within a line, each loop is compiled once."""

import platform
import re
from functools import cache

import pytest
from numba import njit, types

from layernorm_backward.kernels import numba_chunks, numba_passes, processor
from layernorm_backward.kernels.numba_walk import PLAIN

X86 = platform.machine().lower() in ("x86_64", "amd64")
SWEEPS = {"forward_pass": ("_forward_rows",), "backward_pass": ("_backward_chunks", "backward_sums")}
KEPT = re.compile(r"vmov(u|a)p[sd]\s+%[yz]mm\d+, (-?\d*\(%r[sb]p\))")


def functions(code):
    """The lines of each function in assembly."""
    parts = re.split(r"^([A-Za-z_][\w.$]*):", code, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@cache
def compiled(name):
    """A pass on rows of bfloat16, not from Numba's cache."""

    def not_cached(signature, function):
        return njit(signature, parallel=True, **PLAIN)(function)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_passes, "_compile", not_cached)
        return getattr(numba_passes, name).__wrapped__("bfloat16", 1, False)


def read_again(place, code):
    """Whether a vector is taken from there: a structure that is cleared is not."""
    return re.search(rf"\sv\w+\s+{re.escape(place)},", code)


@pytest.mark.skipif(not X86, reason="reads the code of x86-64")
@pytest.mark.parametrize("name", SWEEPS)
def test_no_vector_is_spilled_to_an_unaligned_address(name):
    code = functions("".join(compiled(name).inspect_asm().values()))
    sweeps = "".join(body for label, body in code.items() if any(sweep in label for sweep in SWEEPS[name]))
    kept = {how for how, place in KEPT.findall(sweeps) if read_again(place, sweeps)}
    assert "mm" in sweeps
    assert "u" not in kept
    assert "a" in kept or not processor.traits().few_registers


@pytest.mark.parametrize("name", SWEEPS)
def test_each_loop_through_rows_is_compiled_for_one_type_of_integers(name):
    """A literal, and what prange counts with, are types of their own."""
    compiled(name)
    direction = name.removesuffix("_pass")
    found = [*getattr(numba_chunks, f"{direction}_pieces").signatures]
    serial = [*getattr(numba_chunks, f"{direction}_serial").signatures]
    assert found and serial
    assert {given[0] for given in found} == {types.int64}
    functions = (numba_chunks.forward_task, numba_chunks._backward_chunks, numba_chunks.add_chunks)
    written = [str(given) for function in functions for given in function.signatures if on_bfloat16(given)]
    assert written and not [given for given in written if "Literal[int]" in given]


def on_bfloat16(signature):
    return "uint16" in str(signature) or "1 x 32" in str(signature)

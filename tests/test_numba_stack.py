"""Vectors that numba_fused keeps on the stack lie within a line, none of them across two pages."""

import platform
import re

import pytest
from numba import njit

from layernorm_backward.kernels import numba_passes, processor
from layernorm_backward.kernels.numba_walk import PLAIN

X86 = platform.machine().lower() in ("x86_64", "amd64")
SWEEPS = {"forward_pass": ("_forward_rows",), "backward_pass": ("_backward_chunks", "backward_sums")}
KEPT = re.compile(r"vmov(u|a)p[sd]\s+%[yz]mm\d+, (-?\d*\(%r[sb]p\))")


def functions(code):
    """The lines of each function in assembly."""
    parts = re.split(r"^([A-Za-z_][\w.$]*):", code, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def read_again(place, code):
    """Whether a vector is taken from there: a structure that is cleared is not."""
    return re.search(rf"\sv\w+\s+{re.escape(place)},", code)


@pytest.mark.skipif(not X86, reason="reads the code of x86-64")
@pytest.mark.parametrize("name", SWEEPS)
def test_no_vector_is_kept_at_an_unaligned_place(name, monkeypatch):
    def not_cached(signature, function):
        return njit(signature, parallel=True, **PLAIN)(function)

    monkeypatch.setattr(numba_passes, "_compile", not_cached)
    compiled = getattr(numba_passes, name).__wrapped__("bfloat16", 1, False)
    code = functions("".join(compiled.inspect_asm().values()))
    sweeps = "".join(body for label, body in code.items() if any(sweep in label for sweep in SWEEPS[name]))
    kept = {how for how, place in KEPT.findall(sweeps) if read_again(place, sweeps)}
    assert "mm" in sweeps
    assert "u" not in kept
    assert "a" in kept or not processor.few_registers()

"""Views on which the kernels of a GPU are checked: their values, their layout, and writes outside them."""

import ctypes
from itertools import chain

import numpy as np
import pytest

from emulated import needs_compiler
from host_board import HostBoard
from layernorm_backward.dtypes import DTYPE_NAMES, gamma_names
from layernorm_backward.experiments import checks_gpu
from layernorm_backward.gpu import program_cache
from layernorm_backward.gpu.exact import Results
from layernorm_backward.gpu.rows import Arrays, Pool
from layernorm_backward.gpu.views import LAYOUTS, Views
from layernorm_backward.kernels.cuda import plan
from layernorm_backward.kernels.cuda.machine import Program
from layernorm_backward.kernels.cuda.plan import Hardware

EPS = 1e-5
PAIRS = [(dtype, gamma_dtype) for dtype in DTYPE_NAMES for gamma_dtype in gamma_names(dtype)]


@pytest.mark.parametrize(("dtype", "gamma_dtype"), PAIRS)
def test_views_differ_in_alignment_and_hold_the_values_of_the_arrays(dtype, gamma_dtype):
    given = Pool(HostBoard(), 1).arrays(5, 8, dtype, gamma_dtype)
    views, (of_given, of_results) = Views(np), LAYOUTS["apart"]
    x, gamma, _, dy = copies = views.laid(given, of_given)
    y, dx, dgamma, dbeta = views.laid(Results(given.x, given.x, given.gamma, given.beta), of_results)
    for one, other in zip(copies, given, strict=True):
        assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes())
    for arrays in ((x, y), (x, dy, dx)):
        places = [one.ctypes.data for one in arrays]
        assert plan.lie(8, x.itemsize, *places) == plan.APART
    assert all(one.ctypes.data % 16 for one in (gamma, dgamma, dbeta))
    assert views.untouched()


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("place", [-1, 5 * 8])
def test_a_write_beside_a_view_is_detected(which, place):
    views = Views(np)
    results = views.laid(Results(*(np.zeros((5, 8), np.float32) for _ in range(4))), LAYOUTS["apart"].results)
    results[which][...] = 1
    assert views.untouched()
    ctypes.c_float.from_address(results[which].ctypes.data + 4 * place).value = 1.0
    assert not views.untouched()


BOTH = ["cuda_fused", "cuda_separate"]


def launched_by_passing(
    cells: list[checks_gpu.Cell], monkeypatch: pytest.MonkeyPatch
) -> tuple[Hardware, set[Program]]:
    """The hardware and the programs launched, where BOTH pass the checks of the cells."""
    board, launched = HostBoard(), set()
    launch = board.machine.launch
    monkeypatch.setattr(
        board.machine, "launch", lambda program, *how: launched.add(program) or launch(program, *how)
    )
    limits = {"float64": 8, "float32": 8, "float16": 1.5, "bfloat16": 1.5}
    how = {"time_left": float, "limits_u": limits, "runs": 2, "eps": EPS}
    for cell in cells:
        rows, _ = checks_gpu.measure(board, Pool(board, 1), cell, BOTH, **how)
        passed = [(row["kernel"], row["passed"], row["reason"]) for row in rows]
        assert passed == [(name, True, "") for name in BOTH]
    assert launched
    return board.machine.hardware, launched


@needs_compiler
@pytest.mark.parametrize(("dtype", "gamma_dtype"), PAIRS)
def test_kernels_are_correct_on_arrays_of_different_alignment_with_the_programs_declared(
    dtype, gamma_dtype, monkeypatch
):
    cells = [checks_gpu.Cell("apart", dtype, gamma_dtype, 9, hidden) for hidden in (61, 64)]
    hardware, launched = launched_by_passing(cells, monkeypatch)
    told = {"kernels": BOTH, "dtypes": [dtype], "apart": [61, 64]}
    assert launched <= set(checks_gpu.programs(hardware, **told))


@pytest.mark.parametrize(("dtype", "gamma_dtype"), PAIRS)
def test_strided_views_hold_the_values_of_the_arrays_in_another_layout(dtype, gamma_dtype):
    given = Pool(HostBoard(), 1).arrays(5, 8, dtype, gamma_dtype)
    views, results = Views(np), Results(given.x, given.dy, given.gamma, given.beta)
    made = map(views.laid, (given, results), LAYOUTS["strided"])
    for one, other in zip(chain(*made), (*given, *results), strict=True):
        assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes())
        assert one.flags.aligned and not one.flags.c_contiguous
    off = views.misaligned(given.x)
    assert (off.dtype, off.tobytes()) == (given.x.dtype, given.x.tobytes())
    assert not off.flags.aligned and off.flags.c_contiguous
    assert views.untouched()


@pytest.mark.parametrize("which", range(8))
def test_a_write_between_the_elements_of_a_view_is_detected(which):
    """As by a kernel that takes the view for contiguous; a transposed view has no gaps between elements."""
    zeros = [np.zeros((5, 8) if axes == 2 else 8, np.float32) for axes in (2, 1, 1, 2, 2, 2, 1, 1)]
    views = Views(np)
    made = [*chain(*map(views.laid, (Arrays(*zeros[:4]), Results(*zeros[4:])), LAYOUTS["strided"]))]
    for one in made:
        one[...] = 1
    assert views.untouched()
    first = made[which].ctypes.data
    turned = made[which].flags.f_contiguous and made[which].ndim == 2
    for place in [made[which].size] if turned else range(1, made[which].size):
        ctypes.c_float.from_address(first + 4 * place).value = 1.0
    assert not views.untouched()


@pytest.mark.parametrize("place", [-1, 40])
def test_a_write_beside_a_misaligned_array_is_detected(place):
    views = Views(np)
    off = views.misaligned(np.zeros((5, 8), np.float32))
    off[...] = 1
    assert views.untouched()
    ctypes.c_float.from_address(off.ctypes.data + 4 * place).value = 1.0
    assert not views.untouched()


@needs_compiler
@pytest.mark.parametrize("check", ["strided", "unaligned"])
@pytest.mark.parametrize(("dtype", "gamma_dtype"), PAIRS)
def test_kernels_are_correct_on_views_with_the_programs_of_contiguous_arrays(
    dtype, gamma_dtype, check, monkeypatch
):
    hardware, launched = launched_by_passing([checks_gpu.Cell(check, dtype, gamma_dtype, 9, 61)], monkeypatch)
    cells = [(name, dtype, gamma_dtype, 61) for name in BOTH]
    assert launched <= set(program_cache.needed(cells, hardware))

"""Cases of the CUDA sources on the host emulation, against exact results; a command to run under a checker.

python cuda_checked.py CHECKER clean GROUP          all cases of a group
python cuda_checked.py CHECKER fault NAME SOURCES   the case of a fault as it is, then with faulty sources
"""

import ctypes
import mmap
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from cuda_cases import CLEAN, FAR, LIMIT_U, MULTIPROCESSORS, ORDERS, Case
from cuda_faults import FAULTS
from layernorm_backward import oracle
from layernorm_backward.dtypes import dtype_of, round_to, sum_dtype
from layernorm_backward.errors import error_u
from layernorm_backward.inputs import values
from layernorm_backward.kernels import cuda_fused
from layernorm_backward.kernels.checks import HOST
from layernorm_backward.kernels.cuda import emulation, plan
from layernorm_backward.kernels.cuda.emulation import SMALL, Emulation, EmulationError
from layernorm_backward.kernels.cuda.machine import CPP_TYPES, SOURCES, Launch, Program

EPS = 1e-5
PASSED = "passes as it is"
HELD: list[NDArray] = []  # buffers with poisoned bytes, so that no other array gets their memory
MAP_NORESERVE = 0x4000  # of Linux, which Python does not name


class Machine(Emulation):
    """The emulation with new arrays full of NaN, and sums by NumPy, which saves 512 threads per block."""

    def __init__(self, case: Case, checker: emulation.Checker, sources: Path) -> None:
        hardware = SMALL._replace(hopper=False)
        if case.chosen:
            hardware = SMALL._replace(multiprocessors=MULTIPROCESSORS[case.chosen.cluster])
        how = {"order": case.order, "late": case.late, "seed": 5}
        super().__init__(checker=checker, sources=sources, hardware=hardware, **how)
        self.arrays = HOST._replace(empty=lambda shape, dtype: np.full(shape, np.nan, dtype))
        self._sums, self._rest = case.sums, case.rest

    def launch(self, program: Program, how: Launch, arguments: tuple) -> None:
        """Run a program, or add partial sums by NumPy. Asserts that a case with a rest has later clusters."""
        if self._rest and program.kernel in plan.MAPS:
            lead, *_ = arguments[-4:]
            assert how.blocks > lead * how.cluster, "there are only leading clusters"
        if self._sums or program.kernel != "add_partials":
            super().launch(program, how, arguments)
            return
        partials, dgamma, dbeta, *_ = arguments
        dgamma[...], dbeta[...] = partials.sum(axis=0)


class Data(NamedTuple):
    """A problem, and where its results go."""

    x: NDArray
    gamma: NDArray
    beta: NDArray
    dy: NDArray
    y: NDArray
    dx: NDArray


def drawn(case: Case, checker: str) -> Data:
    """x of unit variance, dy and gamma of mean 1; results hold NaN."""
    rng = np.random.default_rng([case.rows, case.hidden])
    shape, nan = (case.rows, case.hidden), np.full((case.rows, case.hidden), np.nan)
    wide = (case.mean + rng.standard_normal(shape), 1 + rng.standard_normal(shape), nan, nan)
    wide[0][::2, :32] += case.outliers
    if case.nan_row is not None:
        wide[0][case.nan_row] = np.nan
    x, dy, y, dx = (
        placed(round_to(array, dtype_of(case.dtype)), offset, checker)
        for array, offset in zip(wide, (*case.lie, case.lie[2]), strict=True)
    )
    vectors = (1 + 0.5 * rng.standard_normal(case.hidden), rng.standard_normal(case.hidden))
    gamma, beta = (round_to(vector, dtype_of(case.gamma_dtype)) for vector in vectors)
    return Data(x, gamma, beta, dy, y, dx)


def placed(array: NDArray, offset: int, checker: str) -> NDArray:
    """A copy at the end of a buffer, `offset` bytes from its beginning; AddressSanitizer guards these."""
    skipped = offset // array.itemsize
    buffer = np.empty(array.size + skipped, array.dtype)
    assert buffer.ctypes.data % 16 == 0
    if offset and checker == "address":
        HELD.append(buffer)
        forbid = ctypes.CDLL(None).__asan_poison_memory_region
        forbid(ctypes.c_void_p(buffer.ctypes.data), ctypes.c_size_t(offset))
    copy = buffer[skipped:].reshape(array.shape)
    copy[...] = array
    return copy


def faulty(case: Case, checker: emulation.Checker, sources: Path = SOURCES) -> list[str]:
    """The faulty results of a case, and their errors. EmulationError for what the emulation refuses."""
    if case.rows * case.hidden >= FAR:
        return faulty_far(case, checker, sources)
    with with_rest(case):
        return faulty_near(case, checker, sources)


def with_rest(case: Case) -> AbstractContextManager:
    """Give plans the rest of the case, however few groups it has."""
    if case.rest is None:
        return nullcontext()
    rests = dict.fromkeys(plan.MAPS, dict.fromkeys((2, 4, 8), plan.Rests(*(plan.Rest(*case.rest),) * 3)))
    return mock.patch.multiple(plan, REST=rests, FEWEST=0)


def faulty_near(case: Case, checker: emulation.Checker, sources: Path) -> list[str]:
    """As `faulty`, for both passes on all rows."""
    data, how = drawn(case, checker), {"machine": Machine(case, checker, sources), "chosen": case.chosen}
    exact = oracle.results(*(values(array) for array in data[:4]), EPS)
    found, saved = {}, statistics(data)
    if "forward" in case.passes:
        found["y"], saved = cuda_fused.forward(data.x, data.gamma, data.beta, EPS, out=data.y, **how)
    if "backward" in case.passes:
        out = (data.dx, *(np.full_like(data.gamma, np.nan) for _ in range(2)))
        found |= zip(
            ("dx", "dgamma", "dbeta"), cuda_fused.backward(data.dy, saved, out=out, **how), strict=True
        )
    return [text for name, result in found.items() for text in off(name, result, getattr(exact, name))]


def statistics(data: Data) -> cuda_fused.Saved:
    """What a forward pass saves, rounded once."""
    x, dtype = values(data.x), sum_dtype(data.x.dtype)
    mean, var = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
    return cuda_fused.Saved(data.x, mean.astype(dtype), (1 / np.sqrt(var + EPS)).astype(dtype), data.gamma)


def off(name: str, result: NDArray, exact: oracle.DoubleDouble) -> Iterator[str]:
    """The faults of a result: its error, or NaN in other places."""
    if not np.array_equal(np.isnan(values(result)), np.isnan(exact.hi)):
        yield f"faulty: {name} is NaN elsewhere"
    worst = np.nanmax(error_u(result, exact), initial=0.0)
    if worst > LIMIT_U:
        yield f"faulty: {name} by {worst:.2g} u"


def faulty_far(case: Case, checker: emulation.Checker, sources: Path) -> list[str]:
    """As `faulty`, with one team per row, for the last two rows only; zeros before them, mostly untouched."""
    few, machine = drawn(case._replace(rows=2), checker), Machine(case, checker, sources)
    exact, saved = oracle.results(*(values(array) for array in few[:4]), EPS), statistics(few)
    shape, rows = (case.rows, case.hidden), (case.rows,)
    x, dy, result = (sparse(shape, few.x.dtype) for _ in range(3))
    mean, rstd = (sparse(rows, saved.mean.dtype) for _ in range(2))
    blocks = case.rows // case.chosen.teams
    partials = sparse((blocks, 2, case.hidden), saved.mean.dtype)
    x[-2:], dy[-2:], mean[-2:], rstd[-2:] = few.x, few.dy, saved.mean[:, 0], saved.rstd[:, 0]
    emulation._runtime(checker).begin_at(blocks - -(-2 // case.chosen.teams))
    if case.passes == "forward":
        launch_far(case, machine, "forward", (x, few.gamma, few.beta, np.float32(EPS), result, mean, rstd))
        return [*off("y", result[-2:], exact.y)]
    launch_far(case, machine, "backward", (dy, x, mean, rstd, few.gamma, result, partials))
    found = {"dx": result[-2:], "dgamma": partials[-2:, 0].sum(axis=0), "dbeta": partials[-2:, 1].sum(axis=0)}
    return [text for name, one in found.items() for text in off(name, one, getattr(exact, name))]


def launch_far(case: Case, machine: Machine, kernel: str, arrays: tuple[Any, ...]) -> None:
    """Launch with as many teams as rows."""
    itemsize = dtype_of(case.dtype).itemsize
    how = plan.fit("backward", case.chosen, 2, case.hidden, itemsize, machine.hardware)
    types = (CPP_TYPES[case.dtype], CPP_TYPES[case.gamma_dtype], case.chosen.text)
    size = (np.int64(case.rows), np.int32(case.hidden), np.int32(how.stages), np.int32(how.slot))
    blocks = case.rows // case.chosen.teams
    size += (np.int32(blocks), np.int32(0), np.int64(case.rows), np.int64(0))
    launch = Launch(blocks, case.chosen.threads, dynamic_bytes=how.dynamic_bytes)
    machine.launch(Program(kernel, kernel, types), launch, (*arrays, *size))


def sparse(shape: tuple[int, ...], dtype: np.dtype) -> NDArray:
    """Zeros that occupy memory only where they are touched."""
    size = int(np.prod(shape)) * dtype.itemsize
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    return np.frombuffer(mmap.mmap(-1, size, flags=flags), dtype).reshape(shape)


def main(checker: emulation.Checker, what: str, name: str, *sources: str) -> str | None:
    """The faults found, or None; an error that stops the process prints its own message."""
    if what == "clean":
        cases = [
            case._replace(order=order, late=late) for case, (order, late) in product(CLEAN[name], ORDERS)
        ]
        found = {case: faulty(case, checker) for case in cases}
        return "\n".join(f"{case}: {texts}" for case, texts in found.items() if texts) or None
    case = next(fault.case for fault in FAULTS if fault.name == name)
    if found := faulty(case, checker):
        return f"without the fault: {found}"
    print(PASSED, flush=True)
    try:
        return "\n".join(faulty(case, checker, Path(*sources))) or None
    except EmulationError as error:
        return f"EmulationError: {error}"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""Finds the programs that passes launch, without a device, and compiles them into the cache, on all cores."""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import cycle, islice
from multiprocessing import get_context
from typing import Any

import numpy as np

from layernorm_backward.dtypes import dtype_of
from layernorm_backward.gpu import variants
from layernorm_backward.gpu.variants import Passes
from layernorm_backward.kernels.checks import HOST
from layernorm_backward.kernels.cuda.compiler import compiled
from layernorm_backward.kernels.cuda.machine import Launch, Program
from layernorm_backward.kernels.cuda.plan import Hardware

ROWS = 8  # the program of a launch does not depend on it
EPS = 1e-5


class Recorder:
    """A machine that runs nothing, and records the programs that it is asked to launch.

    Arrays begin at multiples of 16 bytes, as new ones on a device do; with `apart`, at different offsets
    modulo 16.
    """

    def __init__(self, hardware: Hardware, *, apart: bool = False) -> None:
        self.hardware = hardware
        self._places = cycle((0, 8) if apart else (0,))
        self.arrays = HOST
        self.programs: dict[Program, None] = {}

    def address(self, array: Any) -> int:
        """The address modulo 16; with `apart` it differs from that of the array before."""
        return next(self._places)

    def clusters(self, program: Program, how: Launch) -> int:
        """As many as there are multiprocessors."""
        return self.hardware.multiprocessors

    def launch(self, program: Program, how: Launch, arguments: Sequence[Any]) -> None:
        """Record the program."""
        self.programs[program] = None


def needed(
    cells: Iterable[tuple[str, str, str, int]], hardware: Hardware, *, apart: bool = False
) -> list[Program]:
    """The programs of both passes for cells (kernel, dtype, gamma's dtype, D); peers have none."""
    recorder = Recorder(hardware, apart=apart)
    for name, dtype, gamma_dtype, hidden in dict.fromkeys(cells):
        if not variants.ours(name) or not variants.takes_machine(name):
            continue
        if dtype in variants.kernel_of(name).unsupported:
            continue
        run(variants.passes(name, recorder), dtype, gamma_dtype, hidden)
    return list(recorder.programs)


def run(passes: Passes, dtype: str, gamma_dtype: str, hidden: int, rows: int = ROWS) -> None:
    """Run both passes on a few uninitialized rows."""
    forward, backward = passes
    x, gamma = np.empty((rows, hidden), dtype_of(dtype)), np.empty(hidden, dtype_of(gamma_dtype))
    _, saved = forward(x, gamma, gamma, EPS)
    backward(x, saved)


def compile_all(programs: Iterable[Program], arch: str) -> int:
    """Compile programs into the cache on disk, one process per core; returns how many failed.

    Programs are taken one by one, as cores become free. If a process is killed, the programs in progress and
    all later ones fail.
    """
    todo, failed, cores = iter(programs), 0, len(os.sched_getaffinity(0))
    at_work: set[Future[bool]] = set()
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        while True:
            at_work |= {_submitted(pool, one, arch) for one in islice(todo, cores - len(at_work))}
            if not at_work:
                return failed
            done, at_work = wait(at_work, return_when=FIRST_COMPLETED)
            failed += sum(not _compiles(one) for one in done)


def _submitted(pool: ProcessPoolExecutor, program: Program, arch: str) -> "Future[bool]":
    try:
        return pool.submit(_compile, program, arch)
    except BrokenProcessPool as error:
        never: Future[bool] = Future()
        never.set_exception(error)
        return never


def _compiles(program: "Future[bool]") -> bool:
    try:
        return program.result()
    except BrokenProcessPool:
        return False


def _compile(program: Program, arch: str) -> bool:
    """Whether it compiles; the compiler's messages are reported by the cells that need it."""
    try:
        compiled([program], arch)
    except RuntimeError:
        return False
    return True

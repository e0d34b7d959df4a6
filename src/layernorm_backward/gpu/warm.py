"""All programs of a campaign compiled before it begins, on all cores, as far as its time allows.

What is compiled keeps no cell waiting; what is not is compiled by the first cell that needs it.
"""

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

ROWS = 8  # which program a launch takes does not depend on them
EPS = 1e-5


class Recorder:
    """A machine that runs nothing, and remembers the programs that it was to run.

    Arrays begin at multiples of 16 bytes, as new ones on a device do, or `apart`.
    """

    def __init__(self, hardware: Hardware, *, apart: bool = False) -> None:
        self.hardware = hardware
        self._places = cycle((0, 8) if apart else (0,))
        self.arrays = HOST
        self.programs: dict[Program, None] = {}

    def address(self, array: Any) -> int:
        """Modulo 16; not that of the array before, where they begin apart."""
        return next(self._places)

    def clusters(self, program: Program, how: Launch) -> int:
        """As if all that were asked for ran at once."""
        return self.hardware.multiprocessors

    def launch(self, program: Program, how: Launch, arguments: Sequence[Any]) -> None:
        """Remember the program."""
        self.programs[program] = None


def needed(
    cells: Iterable[tuple[str, str, str, int]], hardware: Hardware, *, apart: bool = False
) -> list[Program]:
    """The programs of both passes of (kernel, dtype, gamma's dtype, D); none for what is not ours."""
    recorder = Recorder(hardware, apart=apart)
    for name, dtype, gamma_dtype, hidden in dict.fromkeys(cells):
        if not variants.ours(name) or not variants.takes_machine(name):
            continue
        if dtype in variants.kernel_of(name).unsupported:
            continue
        run(variants.passes(name, recorder), dtype, gamma_dtype, hidden)
    return list(recorder.programs)


def run(passes: Passes, dtype: str, gamma_dtype: str, hidden: int, rows: int = ROWS) -> None:
    """Both passes on a few rows that hold anything."""
    forward, backward = passes
    x, gamma = np.empty((rows, hidden), dtype_of(dtype)), np.empty(hidden, dtype_of(gamma_dtype))
    _, saved = forward(x, gamma, gamma, EPS)
    backward(x, saved)


def compile_all(programs: Iterable[Program], arch: str) -> int:
    """Compile each program into the cache on disk, in a process of its own for each core; how many failed.

    Programs are taken one by one, as cores are free for them. Where a process is killed, those at work fail,
    and so do all after them.
    """
    todo, failed, cores = iter(programs), 0, len(os.sched_getaffinity(0))
    at_work: set[Future[bool]] = set()
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        while True:
            at_work |= {_begun(pool, one, arch) for one in islice(todo, cores - len(at_work))}
            if not at_work:
                return failed
            done, at_work = wait(at_work, return_when=FIRST_COMPLETED)
            failed += sum(not _compiles(one) for one in done)


def _begun(pool: ProcessPoolExecutor, program: Program, arch: str) -> "Future[bool]":
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
    """Whether it compiles; where it does not, the cells that need it tell the compiler's messages."""
    try:
        compiled([program], arch)
    except RuntimeError:
        return False
    return True

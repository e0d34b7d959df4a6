"""The CUDA sources on a CPU: compiled by g++ against `host/`, run thread by thread (`host/emulation.hpp`).

It is for tests, and slow.
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from layernorm_backward.kernels.checks import HOST
from layernorm_backward.kernels.cuda.kept import kept
from layernorm_backward.kernels.cuda.machine import SOURCES, Launch, Program
from layernorm_backward.kernels.cuda.plan import Hardware

Order = Literal["forward", "reverse", "random"]
Checker = Literal["plain", "address", "thread"]
COMPILER = "g++"
OPTIONS = ("-std=c++17", "-fPIC", "-shared", "-ffp-contract=off", "-Wall", "-Wextra", "-Wno-unknown-pragmas")
CHECKS: dict[str, tuple[str, ...]] = {
    "plain": (),
    "address": ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1"),
    "thread": ("-fsanitize=thread", "-g1"),
}
SMALL = Hardware(multiprocessors=3, shared_bytes=228 << 10, hopper=True)


class EmulationError(RuntimeError):
    """A kernel broke a rule of the device, or the sources do not compile."""


class Emulation:
    """A small device in this process; order: of the threads; late: whether bulk copies complete late.

    The kernels are compiled from the folder `sources`. For a checker other than "plain", its runtime must be
    loaded in this process.
    """

    def __init__(
        self,
        *,
        order: Order = "forward",
        late: bool = True,
        seed: int = 0,
        checker: Checker = "plain",
        hardware: Hardware = SMALL,
        sources: Path = SOURCES,
    ) -> None:
        self.hardware = hardware
        self.arrays = HOST
        self._how = (get_args(Order).index(order), seed, int(late))
        self._checker, self._sources = checker, sources

    def address(self, array: Any) -> int:
        """The address of an array's first element."""
        return array.ctypes.data

    def clusters(self, program: Program, how: Launch) -> int:
        """Any number can run here; one for each multiprocessor."""
        return self.hardware.multiprocessors

    def launch(self, program: Program, how: Launch, arguments: Sequence[Any]) -> None:
        """Run a program; EmulationError says what a thread did wrong."""
        run, kernel = _loaded(self._sources, self._checker, program)
        held = [_argument(one) for one in arguments]
        addresses = (ctypes.c_void_p * len(held))(*(ctypes.addressof(one) for one in held))
        sizes = (how.blocks, how.threads, how.cluster, ctypes.c_size_t(how.dynamic_bytes))
        error = run(kernel, *sizes, addresses, *self._how)
        if error:
            raise EmulationError(f"{program.text}: {error.decode()}")


def missing() -> str:
    """Empty where the emulation can be compiled here, else the reason why not."""
    return "" if shutil.which(COMPILER) else f"{COMPILER} is not installed"


def build(programs: Iterable[Program], checker: Checker = "plain", sources: Path = SOURCES) -> Path:
    """A library of these programs, each under `symbol(program)`; compiled if it is not cached."""
    programs = list(programs)
    lines = [f'#include "{source}.cuh"' for source in dict.fromkeys(one.source for one in programs)]
    lines += [
        f'extern "C" void {symbol(one)}(void** all) {{ Instance<&{one.text}>::run(all); }}'
        for one in programs
    ]
    return _compiled("\n".join(lines) + "\n", ("-O0", *CHECKS[checker]), sources)


def symbol(program: Program) -> str:
    """The name of a program in its library."""
    return f"program_{hashlib.sha256(program.text.encode()).hexdigest()[:16]}"


def runtime(checker: str) -> str:
    """The checker's library, to be loaded before Python (LD_PRELOAD)."""
    name = {"address": "libasan.so", "thread": "libtsan.so"}[checker]
    found = _run(COMPILER, f"-print-file-name={name}")
    return str(Path(found.strip()).resolve())


def _compiled(text: str, options: tuple[str, ...], sources: Path, *, kernels: bool = True) -> Path:
    """The shared library of a C++ text, which includes host headers and, if `kernels`, the kernels'."""
    command = [COMPILER, *OPTIONS, *options, f"-I{sources}", f"-I{sources / 'host'}", "-x", "c++", "-"]
    headers = [*(sources / "host").glob("*"), *(sources.glob("*.cuh") if kernels else ())]

    def make(path: Path) -> None:
        _run(*command, "-o", str(path), text=text)

    return kept(".so", (text, options, OPTIONS, _version()), headers, make)


@cache
def _version() -> str:
    return _run(COMPILER, "--version")


def _run(*command: str, text: str = "") -> str:
    clean = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}  # a checker's, for us
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, env=clean)
    if done.returncode:
        raise EmulationError(f"{' '.join(command)}:\n{done.stderr}")
    return done.stdout


@cache
def _loaded(sources: Path, checker: Checker, program: Program) -> tuple[Any, Any]:
    """The emulation's entry, and the program."""
    run = _runtime(checker).emulate
    run.restype = ctypes.c_char_p
    library = ctypes.CDLL(str(build([program], checker, sources)))
    return run, getattr(library, symbol(program))


@cache
def _runtime(checker: str) -> ctypes.CDLL:
    """The emulation itself, one for all sources of kernels."""
    text, options = '#include "emulation.cpp"\n', ("-O1", *CHECKS[checker])
    path = _compiled(text, options, SOURCES, kernels=False)
    return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


def _argument(value: Any) -> Any:
    """An array's address, or a NumPy scalar, as a C object that can be pointed to."""
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    kinds = {
        np.int64: ctypes.c_int64,
        np.int32: ctypes.c_int32,
        np.float32: ctypes.c_float,
        np.float64: ctypes.c_double,
    }
    return kinds[type(value)](value)

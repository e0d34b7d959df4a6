"""A peer's process: python -m layernorm_backward.peers_at_work.worker MODULE OPTION PIPE MEMORY

MODULE has `prepare(work, x, dy, option) -> Pass`. PIPE and MEMORY are file descriptors. The process answers
requests from the pipe, one by one, until the pipe is closed, which also happens when the measuring process is
killed; an exception is sent back as the answer to its request.
"""

import ctypes
import gc
import importlib
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward.dtypes import dtype_of
from layernorm_backward.one_line import one_line
from layernorm_backward.peers_at_work.memory import mapped
from layernorm_backward.peers_at_work.meter import Meter
from layernorm_backward.peers_at_work.protocol import QUANTITIES, Failure, Prepared, Request, Work

WARM = 3


class Pass(NamedTuple):
    """A prepared pass: `call` returns once the results are computed, `arrays` gives these (see QUANTITIES).

    `kept` holds references that must live as long as the pass.
    """

    call: Callable[[], Any]
    arrays: Callable[[Any], tuple[Any, ...]]
    version: str
    kept: object = None


class _Worker:
    def __init__(self, module: str, option: str, memory: int) -> None:
        self._prepare = importlib.import_module(module).prepare
        self._option, self._memory = option, memory
        self._ready: Pass | None = None
        self._meter: Meter | None = None

    def prepare(self, work: Work) -> Prepared:
        """Prepare a pass, run it once, which may compile it, and return its results."""
        x, dy = _arrays(self._memory, work)
        self._ready = self._prepare(work, x, dy, self._option)
        results = self._ready.arrays(self._ready.call())
        return Prepared(_looked_at(work, results), self._ready.version)

    def warm(self) -> float:
        """Take samples that do not count, until the allocator's placement is stable; seconds of the last run.

        Whole samples are taken: what a sample itself allocates moves the results to other addresses, once.
        """
        meter = Meter(self._ready.call)
        seconds = [meter.sample(1, 0).seconds for _ in range(WARM)]
        self._meter = Meter(self._ready.call)
        return seconds[-1]

    def sample(self, loops: int, lead: int) -> Any:
        return self._meter.sample(loops, lead)

    def usage(self) -> Any:
        return self._meter.usage()

    def release(self) -> None:
        """Free all arrays, and return the memory that the allocator retains to the system."""
        self._ready = self._meter = None
        gc.collect()
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
        if trim:
            trim(0)


def _looked_at(work: Work, arrays: tuple[Any, ...]) -> dict[str, NDArray]:
    """Copies of the results, by name; y and dx only in the rows `looked_at`."""
    found = dict(zip(QUANTITIES[work.direction], arrays, strict=True))
    for name in found.keys() & {"y", "dx"}:
        found[name] = found[name].reshape(work.shape)[work.looked_at]
    return {name: np.array(array) for name, array in found.items()}


def serve(worker: _Worker, connection: Connection) -> None:
    """Answer requests until the pipe is closed."""
    while True:
        try:
            request: Request = connection.recv()
        except EOFError:
            return
        connection.send(_answer(worker, request))  # keeps no reference to the answer


def _answer(worker: _Worker, request: Request) -> Any:
    try:
        return getattr(worker, request.what)(*request.arguments)
    except Exception as error:
        return Failure(one_line(error))


def _arrays(memory: int, work: Work) -> tuple[NDArray, NDArray]:
    dtype = dtype_of(work.dtype)
    size = int(np.prod(work.shape)) * dtype.itemsize
    flat = mapped(memory, work.dy_offset + size)
    return tuple(flat[start : start + size].view(dtype).reshape(work.shape) for start in (0, work.dy_offset))


def main() -> None:
    """Serve one peer."""
    module, option, pipe, memory = sys.argv[1:]
    gc.disable()
    with Connection(int(pipe)) as connection:
        serve(_Worker(module, option, int(memory)), connection)


if __name__ == "__main__":
    main()

"""Compiles the programs of a campaign before anything is measured, so that no cell waits for the compiler."""

from collections.abc import Iterator, Sequence
from time import monotonic

from layernorm_backward.gpu import program_cache
from layernorm_backward.gpu.board import Board
from layernorm_backward.gpu.deadline import Deadline
from layernorm_backward.gpu.part import Part
from layernorm_backward.kernels.cuda.machine import Program
from layernorm_backward.kernels.cuda.plan import Hardware


def compile_programs(board: Board, parts: Sequence[Part], deadline: Deadline) -> None:
    """Compile the programs of all cells, while there is time.

    A program that is left is compiled by the first cell that needs it, which also reports compiler errors.
    """
    started, taken = monotonic(), []
    needed = programs(board.machine.hardware, parts)

    def in_time() -> Iterator[Program]:
        for program in needed:
            if deadline.left() <= 0:
                return
            taken.append(program)
            yield program

    failed = board.compile(in_time())
    message = f"{len(taken) - failed} of {len(needed)} programs compiled in {monotonic() - started:.0f} s"
    print(message + (f", {failed} failed" if failed else ""), flush=True)


def programs(hardware: Hardware, parts: Sequence[Part]) -> list[Program]:
    """The programs that the kernels of all cells launch, and those that experiments declare beside them."""
    needed = [
        (name, cell.dtype, getattr(cell, "gamma_dtype", cell.dtype), cell.hidden)
        for part in parts
        for cell, names in part.wanted.items()
        for name in names
        if hasattr(cell, "hidden")
    ]
    found = program_cache.needed(needed, hardware)
    for part in parts:
        if hasattr(part.experiment, "programs"):
            found += part.experiment.programs(hardware, **part.config)
    return list(dict.fromkeys(found))

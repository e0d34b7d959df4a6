"""The programs of a campaign, compiled before anything is measured: no cell waits for the compiler."""

from collections.abc import Iterator, Sequence
from time import monotonic

from layernorm_backward.gpu import warm
from layernorm_backward.gpu.board import Board
from layernorm_backward.gpu.part import Part
from layernorm_backward.gpu.until import Until
from layernorm_backward.kernels.cuda.machine import Program
from layernorm_backward.kernels.cuda.plan import Hardware


def compile_programs(board: Board, parts: Sequence[Part], until: Until) -> None:
    """Compile what the cells will run, while there is time.

    What is not compiled by then, the first cell that needs it compiles; or tells why it does not compile.
    """
    started, taken = monotonic(), []
    needed = programs(board.machine.hardware, parts)

    def in_time() -> Iterator[Program]:
        for program in needed:
            if until.left() <= 0:
                return
            taken.append(program)
            yield program

    failed = board.compile(in_time())
    told = f"{len(taken) - failed} of {len(needed)} programs compiled in {monotonic() - started:.0f} s"
    print(told + (f", {failed} failed" if failed else ""), flush=True)


def programs(hardware: Hardware, parts: Sequence[Part]) -> list[Program]:
    """What the kernels of all cells run, and what experiments say that they run beside these."""
    needed = [
        (name, cell.dtype, getattr(cell, "gamma_dtype", cell.dtype), cell.hidden)
        for part in parts
        for cell, names in part.wanted.items()
        for name in names
        if hasattr(cell, "hidden")
    ]
    found = warm.needed(needed, hardware)
    for part in parts:
        if hasattr(part.experiment, "programs"):
            found += part.experiment.programs(hardware, **part.config)
    return list(dict.fromkeys(found))

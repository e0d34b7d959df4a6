"""Why something was not measured, in a line: whether that can be otherwise another time, or is a fault."""

from typing import Protocol

from layernorm_backward.one_line import one_line

SHORT_OF_MEMORY = ("OutOfMemory", "MemoryError", "RESOURCE_EXHAUSTED", "cudaErrorMemoryAllocation")


class Passing(str):
    """A reason that can go away: a tool is missing, memory or time was short. The cell is measured again."""


class Fault(str):
    """A reason that is a fault of what was to be measured: its results are wrong, or it raises an error."""


KINDS: dict[str, type[str]] = {"passing": Passing, "fault": Fault}


class Refusal(ValueError):
    """What is known not to be had, a dtype of a kernel say, or a way that does not fit a device: no fault."""


class Lost(RuntimeError):
    """The device works no more: after an illegal address, say, all that a process asks of it fails."""


class _Board(Protocol):
    def lost(self) -> str: ...


def of(board: _Board, name: str, error: Exception) -> str:
    """Why a kernel or peer was not measured. Lost where its error has cost the device: no other runs then."""
    lost = board.lost()
    if lost:
        raise Lost(f"{name}: {lost}") from error
    if isinstance(error, Refusal):
        return str(error)
    told = one_line(error)
    return Passing(told) if any(word in told for word in SHORT_OF_MEMORY) else Fault(told)

"""Why something was not measured, in a line, and whether that can be otherwise another time."""

from typing import Protocol

SHORT_OF_MEMORY = ("OutOfMemory", "MemoryError", "RESOURCE_EXHAUSTED", "cudaErrorMemoryAllocation")


class Passing(str):
    """A reason that can go away: a tool is missing, memory or time was short. The cell is measured again."""


class Lost(RuntimeError):
    """The device works no more: after an illegal address, say, all that a process asks of it fails."""


class _Board(Protocol):
    def lost(self) -> str: ...


def text(error: BaseException) -> str:
    """An exception in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def of(board: _Board, name: str, error: Exception) -> str:
    """Why a kernel or peer was not measured. Lost where its error has cost the device: no other runs then."""
    lost = board.lost()
    if lost:
        raise Lost(f"{name}: {lost}") from error
    told = text(error)
    return Passing(told) if any(word in told for word in SHORT_OF_MEMORY) else told

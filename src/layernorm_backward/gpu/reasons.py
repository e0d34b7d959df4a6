"""Why something was not measured, in one line: transient, a fault, or neither."""

from typing import Protocol

from layernorm_backward.one_line import one_line

SHORT_OF_MEMORY = ("OutOfMemory", "MemoryError", "RESOURCE_EXHAUSTED", "cudaErrorMemoryAllocation")


class Transient(str):
    """A reason that may not hold next time: no tool, too little memory or time. The cell is retried."""


class Fault(str):
    """A fault of the kernel or peer itself: its results are wrong, or it raises an error."""


KINDS: dict[str, type[str]] = {"transient": Transient, "fault": Fault}


class Refusal(ValueError):
    """Not supported, which is no fault: a dtype that a kernel lacks, a mapping that does not fit a device."""


class Lost(RuntimeError):
    """The device is unusable for this process, as after an illegal address: every further request fails."""


class _Board(Protocol):
    def lost(self) -> str: ...


def of(board: _Board, name: str, error: Exception) -> str:
    """Why a kernel or peer was not measured. Raises Lost where its error has made the device unusable."""
    lost = board.lost()
    if lost:
        raise Lost(f"{name}: {lost}") from error
    if isinstance(error, Refusal):
        return str(error)
    text = one_line(error)
    return Transient(text) if any(word in text for word in SHORT_OF_MEMORY) else Fault(text)

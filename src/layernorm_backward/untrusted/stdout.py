"""Reports reach the standard output that a command started with, whatever foreign code does to it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

_NO_FILE = (OSError, ValueError, AttributeError)  # what is not open, or no file, raises
_kept: TextIO | None = None


@contextmanager
def kept() -> Iterator[None]:
    """Inside, `emit` prints to the present output, even if `sys.stdout` is replaced or its file closed."""
    global _kept
    before = _kept
    with _copy(sys.stdout) as _kept:
        try:
            yield
        finally:
            _kept = before


def emit(report: str) -> None:
    """Print a report; if the pipe is closed, as by `head`, the command continues without output."""
    with suppress(*_NO_FILE):
        sys.stdout.flush()  # what was printed before it comes before it
    try:
        print(report, file=_kept, flush=True)
    except BrokenPipeError:
        with Path(os.devnull).open("w") as nowhere:
            for out in (_kept, sys.stdout):
                with suppress(*_NO_FILE):
                    os.dup2(nowhere.fileno(), out.fileno())


@contextmanager
def _copy(out: TextIO) -> Iterator[TextIO]:
    """The same file under a number of its own; what has no number, as a test's, is itself."""
    try:
        number = os.dup(out.fileno())
    except _NO_FILE:
        yield out
        return
    with open(number, "w", encoding=out.encoding, errors=out.errors) as copy:  # noqa: PTH123, a number
        yield copy

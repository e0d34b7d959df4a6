"""Reports and errors reach the outputs that a command started with, whatever foreign code does to them."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

_NO_FILE = (OSError, ValueError, AttributeError)  # what is not open, or no file, raises
_kept: TextIO | None = None
_kept_errors: TextIO | None = None


@contextmanager
def kept() -> Iterator[None]:
    """Inside, `emit` and `errors` use the present outputs, even if `sys` has others or closed ones."""
    global _kept, _kept_errors
    before = _kept, _kept_errors
    with _copy(sys.stdout) as _kept, _copy(sys.stderr) as _kept_errors:
        try:
            yield
        finally:
            _kept, _kept_errors = before


def errors() -> TextIO:
    """The output for errors and progress."""
    return _kept_errors or sys.stderr


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
    text = {"encoding": out.encoding, "errors": out.errors}
    with open(number, "w", buffering=1, **text) as copy:  # noqa: PTH123, a number
        yield copy

"""Exclusive use of a folder by one process: an operating-system lock, released when the process ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

try:
    import fcntl
except ImportError:  # on Windows, for example: nothing is locked
    fcntl = None


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the lock of the folder, which is created if missing; ValueError names a process that holds it.

    Without effect on a file system without locks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a+", encoding="utf-8") as file:
        if fcntl:
            _lock(file, folder)
        file.truncate(0)
        print(os.getpid(), end="", file=file, flush=True)
        yield


def _lock(file: TextIO, folder: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        raise ValueError(
            f"{folder}: process {file.read()} is at work there; wait for its end, or choose another folder"
        ) from None
    except OSError:
        return

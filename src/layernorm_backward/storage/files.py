"""Atomic writes of files: under a temporary name, then renamed."""

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def writable(folder: Path) -> bool:
    """Whether files can be written to a folder, which is created if missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`, with its suffix; renamed to it on success, removed on failure.

    An OSError names `path` if it cannot be created. Its permissions follow the umask.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}-{secrets.token_hex(8)}{path.suffix}")
    with _naming(path):
        temporary.touch(exist_ok=False)
    try:
        yield temporary
        with _naming(path):
            temporary.replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """In this context an OSError names `path` instead of the temporary file."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None

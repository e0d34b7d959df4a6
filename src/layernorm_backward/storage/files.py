"""Files that are either whole or not there: written under a temporary name, then renamed."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def writable(folder: Path) -> bool:
    """Whether files can be written to a folder, which is made where it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`, with its suffix; renamed to it on success, removed on failure.

    OSError names `path` where it cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _naming(path):
        handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        with _naming(path):
            temporary.replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Inside, an OSError is about `path`, whatever the temporary file is called."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None

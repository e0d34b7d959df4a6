"""A writable folder for Numba's cache of compiled code; without one, Numba refuses to compile."""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

from layernorm_backward.storage.files import writable

VARIABLE = "NUMBA_CACHE_DIR"
_IN_TREE = Path(__file__).parent / "kernels" / "__pycache__"


class NoFolderError(OSError):
    """No folder is writable, not even a temporary one."""


def ensure() -> None:
    """If Numba would find no folder, set a temporary one for it and in the environment, with a warning.

    NoFolderError if not even a temporary one can be made.
    """
    if any(map(writable, _folders())):
        return
    folder = os.environ[VARIABLE] = _temporary()
    if "numba" in sys.modules:  # it has read the environment already
        sys.modules["numba"].config.CACHE_DIR = folder
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    said = f"no folder for compiled code can be written to; it is lost after this run: {VARIABLE} names one"
    print(f"warning: {said}", file=sys.stderr)


def _temporary() -> str:
    try:
        return tempfile.mkdtemp(prefix="numba-")
    except OSError:
        said = "no folder for compiled code can be written to, nor one for temporary files"
        raise NoFolderError(f"{said}: {VARIABLE} names one") from None


def _folders() -> list[Path]:
    """The folders that Numba tries, in its order."""
    named = os.environ.get(VARIABLE)
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111, Path's raises
    return [*([Path(named)] if named else []), _IN_TREE, Path(cache) / "numba"]

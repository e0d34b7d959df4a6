"""A folder that Numba can keep compiled code in: where none can be written to, it refuses to compile."""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

VARIABLE = "NUMBA_CACHE_DIR"
_IN_TREE = Path(__file__).parent / "kernels" / "__pycache__"


def ensure() -> None:
    """Where Numba would find no folder, name a temporary one to it and in the environment, and say so."""
    if any(_writable(folder) for folder in _folders()):
        return
    folder = os.environ[VARIABLE] = tempfile.mkdtemp(prefix="numba-")
    if "numba" in sys.modules:  # which has read the environment
        sys.modules["numba"].config.CACHE_DIR = folder
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    said = f"no folder for compiled code can be written to; it is lost after this run: {VARIABLE} names one"
    print(f"warning: {said}", file=sys.stderr)


def _folders() -> list[Path]:
    """Where Numba looks for one, in its order."""
    named = os.environ.get(VARIABLE)
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111, Path's raises
    return [*([Path(named)] if named else []), _IN_TREE, Path(cache) / "numba"]


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False

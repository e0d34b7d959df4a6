"""Cache invalidation for Numba: a checksum of the modules a function is compiled from, and a unique name.

Numba's cache checks the file of a compiled function and the values in its closure, but not the files of the
functions that it calls. With this checksum in its closure, a change of any of them recompiles it.
"""

import inspect
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Function = TypeVar("Function", bound=Callable)

_COMPILED = ("lane*.py", "half.py", "processor.py", "numba_*.py")
_NOT_COMPILED = {f"numba_{name}.py" for name in ("fused", "calls", "plan", "tuning")}


def checksum(*others: Callable, folder: Path = Path(__file__).parent) -> int:
    """A checksum, not 0, of the modules that are compiled: those of a folder, and of other functions."""
    paths = *compiled_from(folder), *(Path(inspect.getfile(inspect.unwrap(other))) for other in others)
    return 1 + zlib.crc32(b"".join(path.read_bytes() for path in paths))


def compiled_from(folder: Path = Path(__file__).parent) -> list[Path]:
    """The modules in a folder that functions are compiled from, and those whose constants are compiled in."""
    found = {path for pattern in _COMPILED for path in folder.glob(pattern)}
    return sorted(path for path in found if path.name not in _NOT_COMPILED)


def named(function: Function, *what: object) -> Function:
    """The function, with its parameters added to its name, so that Numba's cache has a separate index for it.

    When two processes add to one index, the additions of one may be lost.
    """
    function.__qualname__ = "_".join(map(str, (function.__name__, *what)))
    return function

"""What Numba's cache knows compiled code by: a number that changes with its modules, and a name.

Numba's cache looks at the file of a compiled function, and at what that function has in its closure; not at
the files of the functions in it. With this number in its closure a change of any of them compiles anew.
"""

import inspect
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Function = TypeVar("Function", bound=Callable)

_COMPILED = ("lane*.py", "half.py", "processor.py", "numba_*.py")
_AROUND = {f"numba_{name}.py" for name in ("fused", "calls", "plan", "pace")}  # nothing is compiled from them


def checksum(*others: Callable, folder: Path = Path(__file__).parent) -> int:
    """Of the modules in a folder that functions are compiled from, and of those of other functions; not 0."""
    paths = *compiled_from(folder), *(Path(inspect.getfile(inspect.unwrap(other))) for other in others)
    return 1 + zlib.crc32(b"".join(path.read_bytes() for path in paths))


def compiled_from(folder: Path = Path(__file__).parent) -> list[Path]:
    """The modules in a folder that functions are compiled from, and those whose numbers these hold."""
    found = {path for pattern in _COMPILED for path in folder.glob(pattern)}
    return sorted(path for path in found if path.name not in _AROUND)


def named(function: Function, *what: object) -> Function:
    """The function, named after what it is made for: the cache then has an index of its own for it.

    Of two processes that add to one index, one may lose what the other has added.
    """
    function.__qualname__ = "_".join(map(str, (function.__name__, *what)))
    return function

"""A number that changes with the modules that Numba compiles functions from.

Numba's cache looks at the file of a compiled function, and at what that function has in its closure; not at
the files of the functions in it. With this number in its closure a change of any of them compiles anew.
"""

import zlib
from pathlib import Path

_COMPILED = ("lane*.py", "half.py", "processor.py", "numba_*.py")
_AROUND = {f"numba_{name}.py" for name in ("fused", "calls", "plan", "pace")}  # nothing is compiled from them


def checksum(folder: Path = Path(__file__).parent) -> int:
    """Of the modules in a folder that functions are compiled from; not 0."""
    return 1 + zlib.crc32(b"".join(path.read_bytes() for path in compiled_from(folder)))


def compiled_from(folder: Path = Path(__file__).parent) -> list[Path]:
    """The modules in a folder that functions are compiled from, and those whose numbers these hold."""
    found = {path for pattern in _COMPILED for path in folder.glob(pattern)}
    return sorted(path for path in found if path.name not in _AROUND)

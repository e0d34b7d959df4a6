"""A cache of compiled files on disk, named by a hash of everything they depend on."""

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from layernorm_backward.storage.files import whole, writable


def kept(suffix: str, parts: object, sources: Iterable[Path], make: Callable[[Path], None]) -> Path:
    """The file for these sources and parts (options, versions, text); `make` writes it if it is not cached.

    OSError where it cannot be written.
    """
    digest = hashlib.sha256(repr(parts).encode())
    for source in sorted(sources):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    path = _folder() / f"{digest.hexdigest()[:32]}{suffix}"
    if not path.exists():
        if not writable(path.parent):
            raise OSError(f"{path.parent} cannot be written to; XDG_CACHE_HOME names another folder")
        with whole(path) as temporary:
            make(temporary)
    return path


def _folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111, Path's raises
    return Path(cache) / "layernorm_backward"

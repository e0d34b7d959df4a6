"""Packages of others, by their import names: files of code; none is imported."""

from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

_CODE = (*SOURCE_SUFFIXES, *EXTENSION_SUFFIXES)


def files(package: str) -> list[Path]:
    """All Python and compiled files of a package, or of the one module that it is; none where it is not."""
    found = find_spec(package)
    if found is None:
        return []
    if found.submodule_search_locations is None:
        return [Path(found.origin)]
    folders = map(Path, found.submodule_search_locations)
    return sorted(path for folder in folders for path in folder.rglob("*") if path.name.endswith(_CODE))

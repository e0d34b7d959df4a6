"""Packages of others, by their import names: files of code; none is imported."""

from importlib.util import find_spec
from pathlib import Path

_COMPILED = "__pycache__"  # by Python, from what stands beside it


def files(package: str) -> list[Path]:
    """All files of a package, in whatever language, or of the one module that it is; none where it is not."""
    found = find_spec(package)
    if found is None:
        return []
    if found.submodule_search_locations is None:
        return [Path(found.origin)]
    folders = map(Path, found.submodule_search_locations)
    return sorted(path for folder in folders for path in folder.rglob("*") if _is_source(path))


def _is_source(path: Path) -> bool:
    return path.is_file() and _COMPILED not in path.parts

"""The source files of third-party packages, by import name, without importing them."""

from importlib.util import find_spec
from pathlib import Path

_COMPILED = "__pycache__"  # compiled by Python from the files beside it


def files(package: str) -> list[Path]:
    """All source files of a package, in any language, or its single module; none if it is not installed."""
    found = find_spec(package)
    if found is None:
        return []
    if found.submodule_search_locations is None:
        return [Path(found.origin)]
    folders = map(Path, found.submodule_search_locations)
    return sorted(path for folder in folders for path in folder.rglob("*") if _is_source(path))


def _is_source(path: Path) -> bool:
    return path.is_file() and _COMPILED not in path.parts

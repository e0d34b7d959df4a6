"""JSON files that hold one object, read and written with the standard library alone."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from layernorm_backward.storage.files import whole


def load(path: Path) -> dict[str, Any]:
    """The object in a file; ValueError names a file that is not valid JSON, or holds something else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path}: must hold one JSON object, holds {type(found).__name__}")
    return found


def save(path: Path, content: Mapping[str, Any]) -> None:
    """Write an object atomically, with sorted keys, one per line."""
    with whole(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")

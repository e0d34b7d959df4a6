"""JSON files that hold one object, read with the standard library alone."""

import json
from pathlib import Path
from typing import Any


def load(path: Path) -> dict[str, Any]:
    """The object in a file; ValueError names a file that is not valid JSON, or holds something else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path}: must hold one JSON object, holds {type(found).__name__}")
    return found

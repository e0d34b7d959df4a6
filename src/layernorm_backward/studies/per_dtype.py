"""Keys of a config file with a value for each dtype, such as limits: every dtype must have one."""

from collections.abc import Iterator, Mapping
from typing import Any

from layernorm_backward.dtypes import DTYPE_NAMES


def lacking(values: Mapping[str, Any]) -> list[str]:
    """What such keys lack, a text each: key, dtypes, and why they are needed.

    Needed is each dtype in a list that is called `dtypes`, anywhere in the file. A key is one of these where
    it holds a mapping and nothing else than dtypes stands in it as a key.
    """
    named = [dtype for dtype in DTYPE_NAMES if dtype in set(_named(values))]
    faults = []
    for key, value in values.items():
        if isinstance(value, dict) and set(value) <= set(DTYPE_NAMES):
            missing = [dtype for dtype in named if dtype not in value]
            needed = f"needed: {', '.join(named)}, which stand under dtypes"
            faults += [f"{key}: nothing for {', '.join(missing)}; {needed}"] if missing else []
    return faults


def _named(value: Any) -> Iterator[str]:
    """All that stands in lists called `dtypes`, at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            named = key == "dtypes" and isinstance(inner, list)
            yield from (item for item in inner if isinstance(item, str)) if named else _named(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _named(inner)

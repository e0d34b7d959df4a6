"""The cells of a timing on a GPU: every combination that a set of a config names, each cell once.

Sets are measured in the order of the config, the most important first. A cell that several sets name has the
kernels of all of them.
"""

from collections.abc import Mapping
from itertools import product
from typing import Any

from layernorm_backward.directions import DIRECTIONS
from layernorm_backward.dtypes import DTYPE_NAMES, dtype_of, gamma_names
from layernorm_backward.gpu.paired import Shape

KEYS = {"kernels", "directions", "hidden", "dtypes", "gamma_dtypes"}  # and one of rows, array_bytes


def cells(sets: Mapping[str, Mapping[str, Any]], known: list[str]) -> dict[Shape, list[str]]:
    """The kernels of every cell. A set has `rows`, or `array_bytes`, which one array takes at most.

    ValueError names the set and the key that is wrong.
    """
    found: dict[Shape, list[str]] = {}
    for name, one in sets.items():
        _check(name, one, known)
        wanted = product(one["directions"], one["dtypes"], one["gamma_dtypes"], one["hidden"])
        for direction, dtype, beside, hidden in wanted:
            gamma = beside if beside in gamma_names(dtype) else dtype
            for rows in _rows(one, dtype, hidden):
                here = found.setdefault(Shape(direction, dtype, gamma, rows, hidden), [])
                here += [kernel for kernel in one["kernels"] if kernel not in here]
    return found


def _check(name: str, one: Mapping[str, Any], known: list[str]) -> None:
    if not isinstance(one, Mapping):
        raise ValueError(f"sets: {name}: {one!r}; allowed: keys and values")
    sizes = {"rows", "array_bytes"} & set(one)
    if set(one) != KEYS | sizes or len(sizes) != 1:
        allowed = ", ".join(sorted(KEYS))
        raise ValueError(f"sets: {name}: has {sorted(one)}; allowed: {allowed}, and rows or array_bytes")
    names = {
        "kernels": known,
        "directions": DIRECTIONS,
        "dtypes": DTYPE_NAMES,
        "gamma_dtypes": ("same", "float32"),
    }
    for key, value in one.items():
        if key != "array_bytes" and not (isinstance(value, list) and value):
            raise ValueError(f"sets: {name}: {key}: {value!r}; allowed: a list with one entry or more")
        allowed = names.get(key)
        for entry in value if isinstance(value, list) else [value]:
            if allowed and entry not in allowed:
                raise ValueError(f"sets: {name}: {key}: {entry!r}; allowed: {', '.join(allowed)}")
            if not allowed and (type(entry) is not int or entry < 1):
                raise ValueError(f"sets: {name}: {key}: {entry!r}; allowed: whole numbers, at least 1")


def _rows(one: Mapping[str, Any], dtype: str, hidden: int) -> list[int]:
    if "rows" in one:
        return one["rows"]
    return [max(1, one["array_bytes"] // (hidden * dtype_of(dtype).itemsize))]

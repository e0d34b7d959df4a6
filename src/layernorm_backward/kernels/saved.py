"""How much the backward pass keeps alive: the bytes of the arrays that a forward pass saves.

Kernels of ours save a named tuple; those of a reader what they like: a tuple, a list, a dict, one array.
"""

from collections.abc import Collection, Mapping
from typing import Any

ALIVE_ANYWAY = ("x", "gamma")  # the caller holds them, whether or not the backward pass needs them


def saved_bytes(saved: Any, exclude: Collection[str] = ()) -> int:
    """Bytes of all arrays in `saved`, but for the fields named in `exclude`; the same memory counts once.

    Scalars (eps, integers) are not counted. Works for any array, on any device.
    """
    arrays = {name: value for name, value in _parts(saved).items() if _is_array(value)}
    counted = {_place(arrays[name]) for name in exclude if name in arrays}
    total = 0
    for array in arrays.values():
        if _place(array) not in counted:
            total += array.nbytes
            counted.add(_place(array))
    return total


def saved_extra_bytes(saved: Any) -> int:
    """`saved_bytes` without x and gamma, which the caller holds anyway; parts without names all count."""
    return saved_bytes(saved, exclude=ALIVE_ANYWAY)


def saved_items(saved: Any) -> tuple[int, int]:
    """How many arrays and how many scalars are saved."""
    parts = _parts(saved)
    arrays = sum(map(_is_array, parts.values()))
    return arrays, len(parts) - arrays


def _parts(saved: Any) -> dict[str, Any]:
    """What is saved, by name or by number."""
    if hasattr(saved, "_asdict"):
        return saved._asdict()
    if isinstance(saved, Mapping):
        return {str(name): value for name, value in saved.items()}
    parts = saved if isinstance(saved, (tuple, list)) else (saved,)
    return {str(number): value for number, value in enumerate(parts)}


def _is_array(value: Any) -> bool:
    return bool(hasattr(value, "nbytes") and value.ndim)


def _place(array: Any) -> tuple[int, int]:
    """Where its memory begins, and its length; which array it is where that is not told."""
    for name in ("__cuda_array_interface__", "__array_interface__"):
        if interface := getattr(array, name, None):
            return interface["data"][0], array.nbytes
    return id(array), array.nbytes

"""How much the backward pass keeps alive: the bytes of the arrays that a forward pass saves."""

from collections.abc import Collection
from typing import Any, NamedTuple

ALIVE_ANYWAY = ("x", "gamma")  # the caller holds them, whether or not the backward pass needs them


def saved_bytes(saved: NamedTuple, exclude: Collection[str] = ()) -> int:
    """Bytes of all arrays in `saved`, but for the fields named in `exclude`; the same memory counts once.

    Scalars (eps, integers) are not counted. Works for any array with an array interface, on any device.
    """
    arrays = {
        name: value for name, value in saved._asdict().items() if hasattr(value, "nbytes") and value.ndim
    }
    counted = {_place(arrays[name]) for name in exclude if name in arrays}
    total = 0
    for array in arrays.values():
        if _place(array) not in counted:
            total += array.nbytes
            counted.add(_place(array))
    return total


def saved_extra_bytes(saved: NamedTuple) -> int:
    """`saved_bytes` without x and gamma, which the caller holds in any case."""
    return saved_bytes(saved, exclude=ALIVE_ANYWAY)


def saved_items(saved: NamedTuple) -> tuple[int, int]:
    """How many arrays and how many scalars are saved."""
    arrays = sum(bool(hasattr(value, "nbytes") and value.ndim) for value in saved)
    return arrays, len(saved) - arrays


def _place(array: Any) -> tuple[int, int]:
    interface = getattr(array, "__cuda_array_interface__", None) or array.__array_interface__
    return interface["data"][0], array.nbytes

"""The memory that the backward pass keeps alive: bytes of all arrays that a forward pass saves."""

from typing import Any

from layernorm_backward.untrusted.reachable import leaves


def saved_bytes(saved: Any, *but: Any) -> int:
    """Bytes of all arrays in `saved`; shared memory counts once, and that of the arrays `but` does not count.

    `but` is for x and gamma, which the caller holds anyway. Scalars (eps, integers) are not counted. It works
    for arrays on any device.
    """
    held = {_place(leaf): leaf.nbytes for leaf in leaves(saved) if _is_array(leaf)}
    return sum(size for place, size in held.items() if place not in set(map(_place, but)))


def saved_items(saved: Any) -> tuple[int, int]:
    """How many arrays and how many scalars are saved."""
    found = list(map(_is_array, leaves(saved)))
    return sum(found), len(found) - sum(found)


def _is_array(leaf: Any) -> bool:
    return bool(hasattr(leaf, "nbytes") and leaf.ndim)


def _place(array: Any) -> tuple[int, int]:
    """The address and length of an array's memory; its identity where no interface reports the address."""
    for name in ("__cuda_array_interface__", "__array_interface__"):
        if interface := getattr(array, name, None):
            return interface["data"][0], array.nbytes
    return id(array), array.nbytes

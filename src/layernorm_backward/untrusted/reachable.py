"""The arrays reachable from a foreign `saved`: checks and byte counts need to know what it holds."""

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import FunctionType, MemberDescriptorType, ModuleType
from typing import Any

import numpy as np

MOST = 10_000  # objects visited, the nearest first: far away are what libraries attach to their objects
_SCALARS = (int, float, complex, np.generic, np.dtype)
_HOLDS_NONE = (str, bytes, type(None), type, ModuleType)


def arrays(saved: Any) -> Iterator[np.ndarray]:
    """The arrays among `leaves`, but for those on a device; never raises."""
    return (leaf for leaf in leaves(saved) if isinstance(leaf, np.ndarray))


def leaves(saved: Any) -> Iterator[Any]:
    """Arrays and scalars in containers, objects, closures and defaults, however deep; never raises.

    Tensors are arrays, where they are not on a device. Modules, classes and a function's globals are not held
    by `saved`.
    """
    waiting, seen = deque([saved]), {}
    while waiting and len(seen) < MOST:
        thing = waiting.popleft()
        if issubclass(type(thing), _SCALARS):
            yield thing
            continue
        if id(thing) in seen or issubclass(type(thing), _HOLDS_NONE):
            continue
        seen[id(thing)] = thing  # kept alive, so that no other is given its id
        if issubclass(type(thing), np.ndarray) or _elsewhere(thing, type(thing)):
            yield thing
        else:
            waiting.extend(_inside(thing))


def _elsewhere(thing: Any, kind: type) -> bool:
    """Whether it is an array that NumPy has no view of."""
    if hasattr(kind, "__cuda_array_interface__"):  # a tensor on the CPU has none
        return _read(thing, "__cuda_array_interface__") is not None
    return hasattr(kind, "nbytes") and hasattr(kind, "ndim") and not hasattr(kind, "__array__")


def _inside(thing: Any) -> list[Any]:
    """Its parts, as far as somebody's class lets them be read."""
    found: list[Any] = []
    with suppress(Exception):
        for part in _parts(thing, type(thing)):
            found.append(part)
    return found


def _parts(thing: Any, kind: type) -> Iterator[Any]:
    if hasattr(kind, "__array__"):
        yield np.asarray(thing.detach() if hasattr(thing, "detach") else thing)
        return
    yield from _attributes(thing, kind)
    if issubclass(kind, Mapping):
        yield from thing.values()
    elif issubclass(kind, tuple | list | set | frozenset | deque):
        yield from thing
    elif issubclass(kind, partial):
        yield from (thing.func, *thing.args, *thing.keywords.values())
    elif issubclass(kind, FunctionType):
        yield from (_read(cell, "cell_contents") for cell in thing.__closure__ or ())
        yield from (thing.__defaults__, thing.__kwdefaults__)
    else:
        yield from (_read(thing, "__func__"), _read(thing, "__self__"))


def _attributes(thing: Any, kind: type) -> Iterator[Any]:
    """What its `__dict__` holds, and the `__slots__` of all its classes."""
    own = _read(thing, "__dict__")
    if isinstance(own, dict):
        yield from own.values()
    for owner in kind.__mro__:
        if "__slots__" in vars(owner):
            slots = (name for name, part in vars(owner).items() if isinstance(part, MemberDescriptorType))
            yield from (_read(thing, name) for name in slots)


def _read(thing: Any, name: str) -> Any:
    """None where there is no such attribute, or none yet, or reading it raises."""
    try:
        return getattr(thing, name, None)
    except Exception:
        return None

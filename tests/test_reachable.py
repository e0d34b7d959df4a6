"""The arrays that a `saved` holds are found wherever they are, and nothing that is not held is looked at."""

import math
from collections import UserDict
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from layernorm_backward.untrusted.reachable import MOST, arrays, leaves

X = np.arange(3.0)


@dataclass
class Data:
    x: object


@dataclass(slots=True)
class Slotted:
    x: object


class Slots:
    __slots__ = "__x"  # one name, as it is written, and private

    def __init__(self, x):
        self.__x = x


class Under(Slots):
    __slots__ = ("unset",)


class Tensor:
    def __init__(self, x):
        self.x = x

    def __array__(self, dtype=None, copy=None):
        return self.x


def closure(x):
    return lambda dy: dy + x


def default(x):
    return lambda dy, x=x: dy + x


def deep(x):
    for _ in range(5000):
        x = [x]
    return x


HOLDERS = {
    "itself": lambda x: x,
    "nested": lambda x: {"a": [({"b": x},)]},
    "object": lambda x: SimpleNamespace(a=SimpleNamespace(b=x)),
    "dataclass": Data,
    "slotted dataclass": Slotted,
    "slots of a base": Under,
    "mapping": lambda x: UserDict(x=x),
    "closure": closure,
    "default": default,
    "partial": lambda x: partial(max, x),
    "method": lambda x: partial(Data(x).__eq__),
    "tensor": Tensor,
    "deep": deep,
}


@pytest.mark.parametrize("name", HOLDERS)
def test_an_array_is_found_wherever_it_is_held(name):
    assert any(np.may_share_memory(X, found) for found in arrays(HOLDERS[name](X)))


class Odd:
    """Every attribute of it raises, and so does its `__class__`."""

    def __getattribute__(self, name):
        raise RuntimeError(name)


class OddDict:
    __dict__ = 5


def empty_cell():
    def pull(dy):
        return later

    if pull is None:
        later = X
    return pull


class Fresh:
    """Each look finds another object: there is no end to it."""

    def __getattr__(self, name):
        return Fresh()


ROUND: list = [X]
ROUND.append(ROUND)


ODD = {
    "all raises": Odd,
    "dict": OddDict,
    "empty cell": empty_cell,
    "endless": Fresh,
    "nothing": lambda: None,
    "no array": lambda: Tensor("none"),
}


@pytest.mark.parametrize("name", ODD)
def test_what_cannot_be_looked_into_does_not_raise(name):
    odd = ODD[name]()
    assert not any(np.may_share_memory(X, found) for found in arrays(odd))
    assert [found is X for found in arrays((odd, ROUND)) if found is X] == [True]


def test_modules_classes_and_globals_are_not_held():
    def pull(dy):
        return numpy.sum(dy) + kind.x + X  # X is a global

    numpy, kind = np, type("Kind", (), {"x": X})
    assert list(arrays([pull, math, Data])) == []


def test_the_nearest_are_looked_at_first_and_not_without_end():
    assert list(arrays([[[0.0], [list(range(5))] * 3, *([] for _ in range(2 * MOST))], X])) == [X]


class OnDevice:
    """As a tensor on a GPU: NumPy has no view of it."""

    nbytes, ndim = 24, 2

    @property
    def __cuda_array_interface__(self):
        return {"data": (8, False)}

    def __array__(self, dtype=None, copy=None):
        raise TypeError("no implicit copies")


def test_scalars_and_arrays_on_a_device_are_leaves_too():
    far = OnDevice()
    saved = SimpleNamespace(a=[X, 3, 3], b=np.float32(0.5), c=far, d=X.dtype, e="no", f=None)
    found = list(leaves(saved))
    assert len(found) == 6 and any(leaf is far for leaf in found)
    assert [leaf is X for leaf in arrays(saved)] == [True]

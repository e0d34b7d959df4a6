"""Arrays that lie as views of a user's may: elsewhere modulo 16 bytes, with steps, turned, off their places.

The elements between and beside those of a view are NaN. Where it has steps there are as many on either side
as it has itself: what takes it for an array that lies element after element reads and writes among these.
"""

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple, TypeVar

import numpy as np

from layernorm_backward.gpu.board import unsigned
from layernorm_backward.gpu.exact import Results
from layernorm_backward.gpu.rows import Arrays

Tensors = TypeVar("Tensors", Arrays, Results)
BESIDE = 16  # elements at least on either side; of any dtype a multiple of 16 bytes


class Lie(NamedTuple):
    """How a view lies, in elements: where it begins after a multiple of 16 bytes, and the steps from one to
    the next along each axis, None for one after the other; turned: the first axis runs the fastest.
    """

    begin: int = 0
    steps: tuple[int, ...] | None = None
    turned: bool = False


class Lies(NamedTuple):
    """How the arrays that a pass is given lie, and those of its results."""

    given: Arrays
    results: Results


LIES = {
    "apart": Lies(  # of float64, which has two places, x begins apart from dy and y, too
        Arrays(x=Lie(1), gamma=Lie(1), beta=Lie(2), dy=Lie(0)),
        Results(y=Lie(2), dx=Lie(3), dgamma=Lie(1), dbeta=Lie(3)),
    ),
    "strided": Lies(
        Arrays(
            x=Lie(steps=(1, 2)),
            gamma=Lie(steps=(2,)),
            beta=Lie(steps=(-1,)),
            dy=Lie(steps=(1, 1), turned=True),
        ),
        Results(
            y=Lie(steps=(-1, 2)),
            dx=Lie(steps=(1, 1), turned=True),
            dgamma=Lie(steps=(3,)),
            dbeta=Lie(steps=(-2,)),
        ),
    ),
}


class Views:
    """Views, and what is around their elements."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self._made: list[tuple[Any, Any]] = []  # buffers of unsigned integers, and what of them is a view's

    def laid(self, arrays: Tensors, lies: Tensors) -> Tensors:
        """Copies that lie so."""
        return type(arrays)(*map(self._laid, arrays, lies))

    def off_place(self, array: Any) -> Any:
        """A copy whose elements lie a byte after multiples of their size."""
        octets = array.view(np.uint8).reshape(-1)
        return self._copy(octets, octets.size, _same, begin=1).view(array.dtype).reshape(array.shape)

    def untouched(self) -> bool:
        """Whether nothing but the views has been written."""
        return all(_only_nan(buffer, view) for buffer, view in self._made)

    def _laid(self, array: Any, lie: Lie) -> Any:
        steps = lie.steps or (1,) * array.ndim
        room = [size * abs(step) for size, step in zip(array.shape, steps, strict=True)]

        def view_of(place: Any) -> Any:
            laid = place.reshape(room[::-1]).T if lie.turned else place.reshape(room)
            return laid[tuple(slice(None, None, step) for step in steps)]

        bits = array.view(unsigned(array.dtype))
        around = bits.size if lie.steps else 0
        return self._copy(bits, prod(room), view_of, around, lie.begin).view(array.dtype)

    def _copy(
        self, values: Any, size: int, view_of: Callable[[Any], Any], around: int = 0, begin: int = 0
    ) -> Any:
        """Values in a view of so many elements, `around` or a few more on either side of them."""
        first = -(-around // BESIDE) * BESIDE + BESIDE + begin
        buffer = self._xp.empty(first + size + around + BESIDE, values.dtype)
        buffer[...] = np.iinfo(values.dtype).max  # every bit is set, which is NaN
        view = view_of(buffer[first : first + size])
        view[...] = values
        self._made.append((buffer, view))
        return view


def _same(place: Any) -> Any:
    return place


def _only_nan(buffer: Any, view: Any) -> bool:
    """Whether each element of a buffer that is not the view's is NaN still."""
    kept = view.copy()
    view[...] = np.iinfo(view.dtype).max
    only = not bool((~buffer).any())
    view[...] = kept
    return only

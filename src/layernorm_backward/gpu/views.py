"""Arrays that no kernel reads as they lie, as views of a user's may: with steps, turned, or off their places.

The elements between and beside those of a view are NaN, as many on either side as the view has: what takes it
for an array that lies element after element reads and writes among these.
"""

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from layernorm_backward.gpu.board import unsigned
from layernorm_backward.gpu.exact import Results
from layernorm_backward.gpu.rows import Arrays

BESIDE = 16  # elements at least on either side; of any dtype a multiple of 16 bytes


class Steps(NamedTuple):
    """From an element to the next along each axis, in elements; turned: the first axis runs the fastest."""

    axes: tuple[int, ...]
    turned: bool = False


GIVEN = Arrays(x=Steps((1, 2)), gamma=Steps((2,)), beta=Steps((-1,)), dy=Steps((1, 1), turned=True))
RESULTS = Results(y=Steps((-1, 2)), dx=Steps((1, 1), turned=True), dgamma=Steps((3,)), dbeta=Steps((-2,)))


class Views:
    """Views, and what is around their elements."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self._made: list[tuple[Any, Any]] = []  # buffers of unsigned integers, and what of them is a view's

    def given(self, arrays: Arrays) -> Arrays:
        """Copies of what a pass is given."""
        return Arrays(*map(self._stepped, arrays, GIVEN))

    def results(self, arrays: Results) -> Results:
        """Copies of where results go."""
        return Results(*map(self._stepped, arrays, RESULTS))

    def off_place(self, array: Any) -> Any:
        """A copy whose elements lie a byte after multiples of their size."""
        octets = array.view(np.uint8).reshape(-1)
        return self._copy(octets, octets.size, _same, before=1).view(array.dtype).reshape(array.shape)

    def untouched(self) -> bool:
        """Whether nothing but the views has been written."""
        return all(_only_nan(buffer, view) for buffer, view in self._made)

    def _stepped(self, array: Any, steps: Steps) -> Any:
        room = [size * abs(step) for size, step in zip(array.shape, steps.axes, strict=True)]

        def view_of(place: Any) -> Any:
            laid = place.reshape(room[::-1]).T if steps.turned else place.reshape(room)
            return laid[tuple(slice(None, None, step) for step in steps.axes)]

        bits = array.view(unsigned(array.dtype))
        return self._copy(bits, prod(room), view_of).view(array.dtype)

    def _copy(self, values: Any, size: int, view_of: Callable[[Any], Any], before: int = 0) -> Any:
        """Values in a view of so many elements, `before` elements after a multiple of 16 bytes."""
        begin = -(-values.size // BESIDE) * BESIDE + BESIDE + before
        buffer = self._xp.empty(begin + size + values.size + BESIDE, values.dtype)
        buffer[...] = np.iinfo(values.dtype).max  # every bit is set, which is NaN
        view = view_of(buffer[begin : begin + size])
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

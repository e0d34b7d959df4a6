"""Test arrays in the memory layouts that a user's views can have: offset, strided, transposed, misaligned.

The elements between and beside those of a view are NaN. A strided view has as many elements on either side as
it has itself: code that takes it for a contiguous array reads and writes among these.
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


class Layout(NamedTuple):
    """The memory layout of a view, in elements: its offset from a multiple of 16 bytes, and its stride along
    each axis, None for contiguous; turned: the first axis varies fastest.
    """

    begin: int = 0
    steps: tuple[int, ...] | None = None
    turned: bool = False


class Layouts(NamedTuple):
    """The layouts of the arrays that a pass is given, and of its results."""

    given: Arrays
    results: Results


LAYOUTS = {
    "apart": Layouts(  # float64 has two offsets: x differs from dy and y, too
        Arrays(x=Layout(1), gamma=Layout(1), beta=Layout(2), dy=Layout(0)),
        Results(y=Layout(2), dx=Layout(3), dgamma=Layout(1), dbeta=Layout(3)),
    ),
    "strided": Layouts(
        Arrays(
            x=Layout(steps=(1, 2)),
            gamma=Layout(steps=(2,)),
            beta=Layout(steps=(-1,)),
            dy=Layout(steps=(1, 1), turned=True),
        ),
        Results(
            y=Layout(steps=(-1, 2)),
            dx=Layout(steps=(1, 1), turned=True),
            dgamma=Layout(steps=(3,)),
            dbeta=Layout(steps=(-2,)),
        ),
    ),
}


class Views:
    """Makes views, and checks that nothing around their elements is written."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self._made: list[tuple[Any, Any]] = []  # buffers of unsigned integers, and the view in each

    def laid(self, arrays: Tensors, layouts: Tensors) -> Tensors:
        """Copies of arrays in these layouts."""
        return type(arrays)(*map(self._laid, arrays, layouts))

    def misaligned(self, array: Any) -> Any:
        """A copy whose elements begin one byte after multiples of their size."""
        octets = array.view(np.uint8).reshape(-1)
        return self._copy(octets, octets.size, _same, begin=1).view(array.dtype).reshape(array.shape)

    def untouched(self) -> bool:
        """Whether nothing but the views has been written."""
        return all(_only_nan(buffer, view) for buffer, view in self._made)

    def _laid(self, array: Any, layout: Layout) -> Any:
        steps = layout.steps or (1,) * array.ndim
        room = [size * abs(step) for size, step in zip(array.shape, steps, strict=True)]

        def view_of(place: Any) -> Any:
            laid = place.reshape(room[::-1]).T if layout.turned else place.reshape(room)
            return laid[tuple(slice(None, None, step) for step in steps)]

        bits = array.view(unsigned(array.dtype))
        around = bits.size if layout.steps else 0
        return self._copy(bits, prod(room), view_of, around, layout.begin).view(array.dtype)

    def _copy(
        self, values: Any, size: int, view_of: Callable[[Any], Any], around: int = 0, begin: int = 0
    ) -> Any:
        """Values in a view of `size` elements, with at least `around` elements on either side."""
        first = -(-around // BESIDE) * BESIDE + BESIDE + begin
        buffer = self._xp.empty(first + size + around + BESIDE, values.dtype)
        buffer[...] = np.iinfo(values.dtype).max  # all bits set: NaN
        view = view_of(buffer[first : first + size])
        view[...] = values
        self._made.append((buffer, view))
        return view


def _same(place: Any) -> Any:
    return place


def _only_nan(buffer: Any, view: Any) -> bool:
    """Whether each element of a buffer outside the view is still NaN."""
    kept = view.copy()
    view[...] = np.iinfo(view.dtype).max
    only = not bool((~buffer).any())
    view[...] = kept
    return only

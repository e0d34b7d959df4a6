"""Work on large arrays in blocks, on all cores: NumPy's loops run without the interpreter's lock."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from numpy.typing import NDArray

from layernorm_backward import machine

_SIZE = 1 << 20  # elements

Part = TypeVar("Part")
Found = TypeVar("Found")


def on_all_cores(work: Callable[[Part], Found], parts: Iterable[Part]) -> list[Found]:
    """What `work` returns for each part, in their order."""
    with ThreadPoolExecutor(machine.usable_cores()) as pool:
        return list(pool.map(work, parts))


def blocks(array: NDArray, size: int = _SIZE) -> Iterator[NDArray]:
    """The elements of a C-contiguous array in views of `size`; the last may be shorter."""
    flat = array.reshape(-1)
    return (flat[start : start + size] for start in range(0, flat.size, size))


def fill(array: NDArray, value: float) -> None:
    """Write a value to every element of a C-contiguous array."""

    def write(part: NDArray) -> None:
        part[...] = value

    on_all_cores(write, blocks(array))

"""The arrays that kernels are timed on: memory shared by many cells, and the expected contents."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from layernorm_backward import inputs
from layernorm_backward.aligned import aligned_empty
from layernorm_backward.dtypes import dtype_of, round_to
from layernorm_backward.timing.blocks import fill
from layernorm_backward.timing.exact_sums import Sums, exact_sums
from layernorm_backward.timing.repeated import BLOCK, Repeated, restored

ALL_ARRAYS = 4  # arrays of a pool for cells of any direction: x, dy, dx, y
ONE_RESULT = 3  # arrays of a pool where no cell writes both y and dx: x, dy, and one result


class Buffers(NamedTuple):
    """x, dy, out, y (..., D) at 64-byte boundaries; gamma, beta, dgamma, dbeta (D,).

    `out` takes y or dx. Where both are written, it takes dx, and y an array of its own; else y is `out`.
    `sums` computes the exact dgamma and dbeta for an eps; None where they are not to be checked. `restored`
    restores the contents of x, dy, gamma, beta, and names those that had been overwritten.
    """

    x: NDArray
    dy: NDArray
    out: NDArray
    gamma: NDArray
    beta: NDArray
    dgamma: NDArray
    dbeta: NDArray
    y: NDArray
    sums: Callable[[float], Sums] | None = None
    restored: Callable[[], list[str]] = list

    def first_rows(self, rows: int) -> "Buffers":
        """The first rows of x, dy, out and y, (rows, D), with the vectors; without checks of any contents."""
        arrays = (array for array in self if isinstance(array, np.ndarray))
        return Buffers(*(one.reshape(-1, one.shape[-1])[:rows] if one.ndim > 1 else one for one in arrays))


class Pool:
    """Memory for the arrays of many cells, allocated and written once, so that no cell incurs page faults.

    x and dy are from N(0,1): BLOCK random numbers each, repeated, so that no row equals one near it;
    `inputs_in` is memory to place them in, where it is not to be allocated here.
    """

    def __init__(
        self,
        bytes_each: int,
        seed: int,
        arrays: int = ALL_ARRAYS,
        inputs_in: tuple[NDArray[np.uint8], ...] = (),
    ) -> None:
        self._seed = seed
        own = arrays - len(inputs_in)
        self._memory = [*inputs_in, *(aligned_empty(bytes_each, np.uint8) for _ in range(own))]
        self._inputs: tuple[Repeated, ...] = ()
        self._sums: dict[tuple[object, ...], Sums] = {}
        for memory in self._memory[2:]:
            fill(memory, 0)

    def buffers(self, shape: tuple[int, ...], dtype: str, gamma_dtype: str = "") -> Buffers:
        """Arrays of this shape; gamma from N(1,1/4), beta from N(0,1), in x's dtype where none is given.

        They share their memory with those of every other call.
        """
        self._fill(dtype_of(dtype))
        size = int(np.prod(shape)) * dtype_of(dtype).itemsize
        x, dy, out, *y = (memory[:size].view(dtype_of(dtype)).reshape(shape) for memory in self._memory)
        rng = inputs.generator(self._seed, *shape)
        gamma = inputs.gamma(rng, "random", shape[-1], dtype_of(gamma_dtype or dtype))
        beta = inputs.beta(rng, shape[-1], gamma.dtype)
        dgamma, dbeta = np.zeros_like(gamma), np.zeros_like(gamma)
        given = {"x": Repeated(x, self._inputs[0].block), "dy": Repeated(dy, self._inputs[1].block)}
        given |= {"gamma": Repeated(gamma, gamma.copy()), "beta": Repeated(beta, beta.copy())}
        known = partial(self._known_sums, x, dy), partial(restored, given)
        return Buffers(x, dy, out, gamma, beta, dgamma, dbeta, *y or [out], *known)

    def _known_sums(self, x: NDArray, dy: NDArray, eps: float) -> Sums:
        """Computed once per shape, dtype and eps; shape and dtype determine the contents of x and dy."""
        key = x.shape, x.dtype, eps
        if key not in self._sums:
            self._sums[key] = exact_sums(x, dy, eps)
        return self._sums[key]

    def _fill(self, dtype: np.dtype) -> None:
        if self._inputs and self._inputs[0].array.dtype == dtype:
            return
        rng = inputs.generator(self._seed)
        flat = [
            memory[: memory.size // dtype.itemsize * dtype.itemsize].view(dtype)
            for memory in self._memory[:2]
        ]
        blocks = [round_to(rng.standard_normal(min(BLOCK, array.size)), dtype) for array in flat]
        self._inputs = tuple(map(Repeated, flat, blocks))
        for one in self._inputs:
            one.fill()


def buffers(shape: tuple[int, ...], dtype: str, seed: int) -> Buffers:
    """The arrays of one cell, in memory of their own; see `Pool`. y is `out`."""
    return Pool(int(np.prod(shape)) * dtype_of(dtype).itemsize, seed, ONE_RESULT).buffers(shape, dtype)

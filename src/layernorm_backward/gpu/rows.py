"""Random rows on the device, made from a pool of normal deviates drawn once on the host.

The pool's length is a prime that no row length divides, so that rows differ. Values are rounded on the host.
"""

from typing import Any, NamedTuple

import numpy as np

from layernorm_backward import inputs
from layernorm_backward.dtypes import dtype_of, round_to
from layernorm_backward.gpu.board import Board, unsigned

PRIME = 4194301  # the largest below 2**22
MEANS = {"x": 0.5, "dy": 1.0}


class Arrays(NamedTuple):
    """x, dy (rows, hidden) and gamma, beta (hidden,) on the device."""

    x: Any
    gamma: Any
    beta: Any
    dy: Any


class Pool:
    """Arrays of any shape, from deviates of one seed; the deviates of the last dtype stay on the device."""

    def __init__(self, board: Board, seed: int) -> None:
        self._board, self._seed = board, seed
        self._dtype = ""
        self._pools: dict[str, Any] = {}

    def arrays(self, rows: int, hidden: int, dtype: str, gamma_dtype: str) -> Arrays:
        """x of mean 0.5 and dy of mean 1, of unit variance; gamma of mean 1, beta of mean 0."""
        self._draw(dtype)
        rng = inputs.generator(self._seed, hidden)
        vectors = (kind(rng, hidden, dtype_of(gamma_dtype)) for kind in (_gamma, inputs.beta))
        gamma, beta = (self._board.array(vector) for vector in vectors)
        return Arrays(self._tiled("x", rows, hidden), gamma, beta, self._tiled("dy", rows, hidden))

    @staticmethod
    def itemsize(dtype: str) -> int:
        """Bytes per element."""
        return dtype_of(dtype).itemsize

    def _draw(self, dtype: str) -> None:
        if dtype == self._dtype:
            return
        self._pools.clear()
        self._dtype = ""  # if memory runs out half-way, the next call draws anew
        for number, (name, mean) in enumerate(MEANS.items()):
            deviates = inputs.generator(self._seed, number).standard_normal(PRIME)
            self._pools[name] = self._board.array(round_to(mean + deviates, dtype_of(dtype)))
        self._dtype = dtype

    def _tiled(self, name: str, rows: int, hidden: int) -> Any:
        pool = self._pools[name].view(unsigned(dtype_of(self._dtype)))
        made = self._board.xp.empty(rows * hidden, pool.dtype)
        for start in range(0, made.size, PRIME):
            part = made[start : start + PRIME]
            part[...] = pool[: part.size]
        return made.view(dtype_of(self._dtype)).reshape(rows, hidden)


def _gamma(rng: np.random.Generator, hidden: int, dtype: np.dtype) -> np.ndarray:
    return inputs.gamma(rng, "random", hidden, dtype)
